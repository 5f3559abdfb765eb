"""Train with a float64 parameter, int64 batches and a monitor: python dtypes.py precision=bf16-mixed"""

import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import DeviceStatsMonitor
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(10, 4)
        self.scale = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss: torch.Tensor = (self.words(batch[0]).sum() * self.scale).float().sum()
        return loss

    def configure_optimizers(self) -> torch.optim.SGD:
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = Trainer(
    accelerator="hpu",
    devices=1,
    precision=sys.argv[1].removeprefix("precision="),  # type: ignore[arg-type]  # a literal to type checkers
    max_epochs=2,
    log_every_n_steps=1,
    callbacks=[DeviceStatsMonitor(cpu_stats=False)],
    logger=CSVLogger("logs"),
    enable_checkpointing=False,
)
trainer.fit(Model(), DataLoader(TensorDataset(torch.arange(8)), batch_size=2))
print("trained with", trainer.precision)
