"""Train on the handwritten digits from the command line, with LightningCLI.

    .venv/bin/python examples/cli_digits.py fit --trainer.accelerator=cpu_sim --trainer.devices=2 --trainer.max_epochs=2

It needs scikit-learn and jsonargparse beside Northbridge and Lightning; `make setup` installs them.

The script names neither Northbridge nor an accelerator: the command line does.
"""

from __future__ import annotations

from lightning.pytorch import LightningDataModule
from lightning.pytorch.cli import LightningCLI
from torch import Tensor
from torch.utils.data import DataLoader

from digits import Digits
from digits_task import load_sets


class DigitsData(LightningDataModule):
    """The digits, in batches of `batch_size` on each rank."""

    def __init__(self, batch_size: int = 32) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.train, self.val, self.test = load_sets()

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(self.val, batch_size=self.batch_size)

    def test_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(self.test, batch_size=self.batch_size)


if __name__ == "__main__":
    LightningCLI(Digits, DigitsData, seed_everything_default=0)
