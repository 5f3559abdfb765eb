"""Dtypes that a Gaudi computes as others; the precision that its first generation has; and what it logs of itself."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.backends.simulation.runs.fixtures import Start

TRAIN = """
import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import DeviceStatsMonitor
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(10, 4)
        self.scale = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def training_step(self, batch, batch_idx):
        return (self.words(batch[0]).sum() * self.scale).float().sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

trainer = Trainer(accelerator="hpu", devices=1, precision=sys.argv[1], max_epochs=2, log_every_n_steps=1,
                  callbacks=[DeviceStatsMonitor(cpu_stats=False)], logger=CSVLogger("logs"),
                  enable_checkpointing=False)
trainer.fit(Model(), DataLoader(TensorDataset(torch.arange(8)), batch_size=2))
print("trained with", trainer.precision)
"""
DOUBLE = (
    "the parameter 'scale' is float64, and 'hpu' has no float64: it is stored as float64 and computed as float32"
    " there; make it float32, or keep to values that fit"
)
LONG = (
    "and 'hpu' has no int64: it is held as int32 there; class labels and token ids fit; a number beyond 2^31 does not"
)


@pytest.mark.parametrize(
    ("precision", "environ", "longs", "gib"),
    [
        ("32-true", {"PT_HPU_LAZY_MODE": "0"}, 0, 96),
        ("32-true", {"PT_HPU_LAZY_MODE": "1"}, 1, 96),
        ("bf16-mixed", {"NORTHBRIDGE_HPU_SIM_GENERATION": "1"}, 1, 32),
    ],
    ids=["eager", "lazy", "first generation"],
)
def test_what_is_computed_as_another_dtype_is_warned_about_once(
    start: Start, tmp_path: Path, precision: str, environ: dict[str, str], longs: int, gib: int
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)

    job = start(str(tmp_path / "train.py"), precision, **environ)

    assert job.end() == 0, job.said
    assert f"trained with {precision}\n" in job.said
    assert (job.said.count(DOUBLE), job.said.count(LONG)) == (1, longs)
    (file,) = tmp_path.rglob("metrics.csv")
    header, *rows = csv.reader(file.read_text().splitlines())
    cells = [(name.rpartition("/")[2], value) for row in rows for name, value in zip(header, row, strict=True)]
    logged = {name: float(value) for name, value in cells if value}
    assert logged["Limit"] == gib * 2**30
    assert logged["MaxInUse"] >= logged["InUse"] > 0
