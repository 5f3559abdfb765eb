"""A checkpoint that was written on any of four accelerators goes on on any of them, to the same end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.backends.together.conftest import ACCELERATORS, Train, differences

from northbridge.lightning.plugins import random_states

PARTS = ("state_dict", "optimizer_states", "lr_schedulers", "epoch", "global_step")


@pytest.fixture(scope="module")
def resumed(halves: Path, train: Train) -> Path:
    """A folder with ``half-cpu-hpu.ckpt`` and so on: begun on the CPU, and ended on hpu."""
    written = [f"half-{accelerator}.ckpt" for accelerator in ACCELERATORS]
    for accelerator in ACCELERATORS:
        train(halves, accelerator, f"{accelerator}.ckpt", *written)
    return halves


@pytest.mark.timeout(600)
@pytest.mark.parametrize("reader", ACCELERATORS)
@pytest.mark.parametrize("writer", ACCELERATORS)
def test_it_ends_as_if_never_interrupted(resumed: Path, writer: str, reader: str) -> None:
    ours = torch.load(resumed / f"half-{writer}-{reader}.ckpt", weights_only=False)
    whole = torch.load(resumed / "cpu.ckpt", weights_only=False)

    assert differences({part: ours[part] for part in PARTS}, {part: whole[part] for part in PARTS}) == []
    assert ours["lr_schedulers"][0]["_last_lr"] == [0.0025]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("writer", ACCELERATORS)
def test_checkpoint_lies_on_cpu_and_keeps_random_states(halves: Path, writer: str) -> None:
    places: set[str] = set()

    def keep(storage: Any, place: str) -> Any:
        places.add(place)
        return storage

    written = torch.load(halves / f"half-{writer}.ckpt", map_location=keep, weights_only=True)
    assert (random_states.of_checkpoint(written) is not None) is (writer != "cpu")

    assert places == {"cpu"}
    assert [name for name in ACCELERATORS[1:] if name in repr(written)] == []
