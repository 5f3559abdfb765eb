"""Step markers: in lazy mode after every backward, step and batch of evaluation; in eager mode none."""

from __future__ import annotations

import pytest
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.runs.fixtures import Run

COMMAND = "PT_HPU_LAZY_MODE={} NORTHBRIDGE_SIMULATE=hpu python {} devices=1"

TRAINER = (
    "8 batches, accumulated 2 by 2, and 3 of validation: {{'after the backward of a micro-batch': {0}, 'after the"
    " backward of a whole batch': {0}, 'after the step': {0}, 'after a batch of validation': {1}}}\n"
)
FABRIC = "backward of a micro-batch: {0}, backward: {0}, step: {0}, evaluation: {0}\n"


MODES = pytest.mark.parametrize(
    ("mode", "devices"), [("1", 1), ("1", 2), ("0", 1)], ids=["lazy", "lazy, two ranks", "eager"]
)


@MODES
def test_of_a_trainer(run: Run, mode: str, devices: int) -> None:
    said = run("markers.py", f"devices={devices}", PT_HPU_LAZY_MODE=mode)

    assert TRAINER.format(*((4, 3) if mode == "1" else (0, 0))) in said
    GAUDI.page.assert_shown(COMMAND.format(mode, "markers.py"), said)


@MODES
def test_of_a_fabric(run: Run, mode: str, devices: int) -> None:
    said = run("fabric_markers.py", f"devices={devices}", PT_HPU_LAZY_MODE=mode)

    assert FABRIC.format(mode) in said
    GAUDI.page.assert_shown(COMMAND.format(mode, "fabric_markers.py"), said)
