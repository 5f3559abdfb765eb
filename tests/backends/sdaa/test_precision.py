"""Numbers of a run: warnings about lower precision than requested, once for all ranks, and the seed on the chip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.scripts import run_forked

SCRIPT = """
import sys
import torch
from lightning.pytorch import LightningModule, Trainer

class ConvNet(LightningModule):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 1, 3)

    def training_step(self, batch, index):
        return self.conv(batch).float().square().mean()

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(4, 1, 8, 8))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
Trainer(accelerator="sdaa", devices=2, precision=sys.argv[1], max_steps=1, **quiet).fit(ConvNet())
"""
CONVOLUTION = "'conv' is a convolution in float32, and 'sdaa' does not compute it in float32: "
RANGE = "precision='bf16-mixed' was asked for, and 'sdaa' does not have bfloat16's range in matrix products: "


@pytest.mark.parametrize(
    ("precision", "environ", "told"),
    [
        ("32-true", {}, (1, 0)),
        ("32-true", {"TORCH_SDAA_CONV_USE_FP32": "1", "TORCH_SDAA_CONV2D_BACKWARD_USE_FP32": "1"}, (0, 0)),
        ("bf16-mixed", {}, (0, 1)),
    ],
    ids=["float32", "float32 in earnest", "bfloat16"],
)
def test_ranks_are_told_once(tmp_path: Path, precision: str, environ: dict[str, str], told: tuple[int, int]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)

    simulated = {**os.environ, "NORTHBRIDGE_SIMULATE": "sdaa", **environ}
    ran = run_forked(tmp_path / "train.py", precision, folder=tmp_path, environ=simulated)

    assert ran.status == 0, ran.said
    assert (ran.said.count(CONVOLUTION), ran.said.count(RANGE)) == told, ran.said


DRAWS = """
import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel

class Draws(BoringModel):
    def training_step(self, batch, index):
        print("drawn:", torch.rand(3, device=self.device).tolist(), self.device)
        return super().training_step(batch, index)

quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
for seed in (1, 1, 2):
    seed_everything(seed)
    Trainer(accelerator="sdaa", devices=[2], max_steps=1, **quiet).fit(Draws())
"""


@pytest.mark.shows("random numbers differ from CUDA's")
def test_the_chips_random_numbers_follow_the_seed(tmp_path: Path, mode: dict[str, str]) -> None:
    (tmp_path / "draw.py").write_text(DRAWS)

    ran = run_forked(
        tmp_path / "draw.py", folder=tmp_path, environ={**os.environ, "NORTHBRIDGE_SIMULATE": "sdaa", **mode}
    )

    assert ran.status == 0, ran.said
    first, again, other = (line for line in ran.said.splitlines() if line.startswith("drawn:"))
    assert first.endswith(" sdaa:2")
    assert again == first != other
