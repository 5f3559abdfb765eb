"""Step markers: in lazy mode after every backward, step and batch of evaluation; in eager mode none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.backends.hpu.gaudi import GAUDI

COMMAND = "PT_HPU_LAZY_MODE={} NORTHBRIDGE_SIMULATE=hpu python {} devices=1"

TRAINER = (
    "8 batches, accumulated 2 by 2, and 3 of validation: {{'after the backward of a micro-batch': {0}, 'after the"
    " backward of a whole batch': {0}, 'after the step': {0}, 'after a batch of validation': {1}}}\n"
)
FABRIC = "backward of a micro-batch: {0}, backward: {0}, step: {0}, evaluation: {0}\n"


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(("mode", "counts"), [("1", (4, 3)), ("0", (0, 0))], ids=["lazy", "eager"])
def test_of_a_trainer(run: Callable[..., str], mode: str, counts: tuple[int, int], devices: int) -> None:
    said = run("markers.py", f"devices={devices}", PT_HPU_LAZY_MODE=mode)

    assert TRAINER.format(*counts) in said
    GAUDI.page.assert_shown(COMMAND.format(mode, "markers.py"), said)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("mode", ["1", "0"], ids=["lazy", "eager"])
def test_of_a_fabric(run: Callable[..., str], mode: str, devices: int) -> None:
    said = run("fabric_markers.py", f"devices={devices}", PT_HPU_LAZY_MODE=mode)

    assert FABRIC.format(mode) in said
    GAUDI.page.assert_shown(COMMAND.format(mode, "fabric_markers.py"), said)


def test_a_release_that_is_lazy_by_default_is_known_for_it(run: Callable[..., str]) -> None:
    assert TRAINER.format(4, 3) in run("markers.py", "devices=1", NORTHBRIDGE_HPU_SIM_RELEASE="1.19")
