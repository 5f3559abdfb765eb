"""The process that saves and loads: ``python -m bench.checkpoint_worker``, asked on its stdin."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bench.job import Answers, questions

_LAYERS = 5
_WIDTH = 5000
"""Five weights of 5000×5000 numbers of four bytes: 500 MB."""


class Large(LightningModule):
    """As large as asked, and trained by next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ParameterList([torch.ones(_WIDTH, _WIDTH) for _ in range(_LAYERS)])
        self.trained = nn.Parameter(torch.ones(1))

    def training_step(self, batch: tuple[Tensor]) -> Tensor:
        return (self.trained * batch[0]).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([self.trained], lr=0.1)


@cache
def fitted(accelerator: str) -> Any:
    """Return a Trainer that has made one step, and holds its model on the device."""
    trainer = Trainer(
        accelerator=accelerator,
        devices=1,
        max_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tempfile.gettempdir(),
    )
    trainer.fit(Large(), DataLoader(TensorDataset(torch.ones(4, 1))))
    trainer.strategy.model_to_device()  # from where it is when a fit is over
    return trainer


def warm_memory() -> None:
    """Use and free 1 GiB in another process, because this one's peak of memory is measured too.

    A virtual machine gives free memory back to its host. The next process that uses such a page waits for the host:
    1.35 s for 500 MB, and 0.25 s for pages in recent use (measured 2026-11). Either side of a comparison may meet them.
    """
    subprocess.run([sys.executable, "-S", "-c", "b'1' * 2**30"], check=True)


def measure(accelerator: str) -> dict[str, float]:
    """Save once and load once; return the seconds of each, and the peak of memory since the process began."""
    trainer = fitted(accelerator)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.ckpt"
        warm_memory()
        start = time.perf_counter()
        trainer.save_checkpoint(file)
        save_seconds = time.perf_counter() - start
        warm_memory()
        start = time.perf_counter()
        checkpoint = trainer.strategy.load_checkpoint(file, weights_only=True)
        trainer.strategy.load_model_state_dict(checkpoint, strict=True)
        load_seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"save_seconds": save_seconds, "load_seconds": load_seconds, "peak_bytes": peak}


def main() -> None:
    """Answer each question."""
    warnings.filterwarnings("ignore", category=UserWarning)
    answers = Answers.capture_stdout()
    for question in questions():
        answers.give(measure(question["accelerator"]))


if __name__ == "__main__":
    main()
