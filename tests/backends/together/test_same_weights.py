"""One script, unchanged, on the CPU and on three chips: the weights are equal bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.backends.together.conftest import ACCELERATORS, Train, differences


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory, train: Train) -> Path:
    """A folder with the checkpoints of two ranks."""
    folder = tmp_path_factory.mktemp("pairs")
    for accelerator in ACCELERATORS:
        train(folder, accelerator, "2", f"{accelerator}.ckpt")
    return folder


def weights(file: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(file, weights_only=False)["state_dict"]
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("accelerator", ACCELERATORS[1:])
@pytest.mark.parametrize("ranks", ["halves", "pairs"], ids=["one rank", "two ranks"])
@pytest.mark.parametrize("written", ["", "fabric-"], ids=["Trainer", "Fabric"])
def test_weights_are_the_cpus(written: str, ranks: str, accelerator: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(ranks)
    ours, theirs = weights(folder / f"{written}{accelerator}.ckpt"), weights(folder / f"{written}cpu.ckpt")

    assert differences(ours, theirs) == []


@pytest.mark.timeout(600)
def test_two_ranks_train_on_other_batches_than_one(halves: Path, pairs: Path) -> None:
    assert differences(weights(pairs / "cpu.ckpt"), weights(halves / "cpu.ckpt")) != []
