"""The training of many ranks: ``python -m bench.forked_ranks RANKS ACCELERATOR`` prints what they cost, as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bench.many_ranks import START

_STEPS = 10
_BATCH, _WIDTH = 4, 64


class Net(LightningModule):
    """So small that the ranks do little but meet."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1))

    def training_step(self, batch: Sequence[Tensor]) -> Tensor:
        loss: Tensor = self.net(batch[0]).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Account(Callback):
    """Print at the end what the ranks have cost: of the slowest or largest rank, and the mean of their CPU time."""

    def on_train_batch_end(self, trainer: Trainer, *_arguments: Any, **_more: Any) -> None:
        if trainer.global_step == 1:
            self._first = time.time() - float(os.environ[START])
            trainer.strategy.barrier()
            self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:  # noqa: ARG002  # as Lightning names it
        step = (time.perf_counter() - self._began) / _STEPS
        cpu = (time.process_time() - self._cpu_began) / _STEPS
        largest: Any = trainer.strategy.reduce(torch.tensor([self._first, step, private_megabytes()]), reduce_op="max")
        mean: Any = trainer.strategy.reduce(torch.tensor(cpu), reduce_op="mean")
        if trainer.is_global_zero:
            first, step, private = largest.tolist()
            found = {"first_step_seconds": first, "step_seconds": step, "cpu_seconds": mean.item()}
            print(json.dumps({**found, "private_megabytes": private}), flush=True)


def private_megabytes() -> float:
    """Return the MB of this process that it shares with no other."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024 / 1e6


def main(ranks: int, accelerator: str) -> None:
    """Train."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    rows = torch.randn(ranks * _BATCH * (_STEPS + 1), _WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            accelerator=accelerator,
            devices=ranks,
            strategy="ddp_fork",
            max_epochs=1,
            callbacks=[Account()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(Net(), DataLoader(TensorDataset(rows), batch_size=_BATCH))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
