"""Random numbers that are drawn on the chip follow the seed of a run, whichever way torch knows the chip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.scripts import run_forked

SCRIPT = """
import sys
import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel

class Draws(BoringModel):
    def training_step(self, batch, index):
        print("drawn:", torch.rand(3, device=self.device).tolist(), self.device)
        return super().training_step(batch, index)

seed_everything(int(sys.argv[1]))
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
Trainer(accelerator="sdaa", devices=[2], max_steps=1, **quiet).fit(Draws())
"""


def drawn(folder: Path, seed: int, **environ: str) -> str:
    script = folder / "draw.py"
    script.write_text(SCRIPT)
    ran = run_forked(
        script, str(seed), folder=folder, environ={**os.environ, "NORTHBRIDGE_SIMULATE": "sdaa", **environ}
    )
    assert ran.status == 0, ran.said
    (line,) = [line for line in ran.said.splitlines() if line.startswith("drawn:")]
    return line


@pytest.mark.shows("random numbers differ from CUDA's")
def test_same_seed_gives_the_same_numbers(tmp_path: Path, mode: dict[str, str]) -> None:
    first = drawn(tmp_path, 1, **mode)

    assert first.endswith(" sdaa:2")
    assert drawn(tmp_path, 1, **mode) == first
    assert drawn(tmp_path, 2, **mode) != first
