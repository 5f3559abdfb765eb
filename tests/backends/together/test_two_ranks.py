"""What a single rank cannot show of captured steps, of the watch for recompilation and of bucketed batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.backends.together.conftest import environment_on
from tests.scripts import run_forked

SCRIPT = Path(__file__).with_name("two_ranks.py")
LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"}


@pytest.mark.parametrize("accelerator", ["cpu_sim", "hpu"])
def test_two_ranks_train_as_without_the_callbacks(accelerator: str, tmp_path: Path) -> None:
    """Equal to the bit, and both ranks have the same shapes in each step."""
    environ = {**environment_on(accelerator, tmp_path), **(LAZY if accelerator == "hpu" else {})}

    ran = run_forked(SCRIPT, accelerator, folder=tmp_path, environ=environ)

    assert ran.status == 0, ran.said
    found = json.loads(next(line for line in ran.said.splitlines() if line.startswith("{")))
    assert (found["captured"], found["watched"]) == (True, True)
    assert found["graphs"] == [found["captures"]] * 2
    assert found["replays"] > 0
