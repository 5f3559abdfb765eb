"""Count the graphs of a training on sentences of every length, first as they come and then padded to few lengths.

A chip with a graph compiler compiles a graph for each shape of a batch, which takes seconds to minutes each.
"""

from __future__ import annotations

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from northbridge import BucketBatchSampler, PaddingCollate, quantile_boundaries
from northbridge.lightning.pytorch import RecompilationMonitor

WORDS = 500


class Classifier(LightningModule):
    """Tell from the words of a sentence whether most of them are in the first half of the dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(WORDS, 16, padding_idx=0)
        self.head = nn.Linear(16, 2)

    def training_step(self, batch: Tensor) -> Tensor:
        labels = (batch.median(dim=1).values < WORDS // 2).long()
        loss: Tensor = nn.functional.cross_entropy(self.head(self.embed(batch)), labels)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def sentences(number: int) -> list[Tensor]:
    """Return sentences of 5 to 80 words."""
    lengths = torch.randint(5, 81, (number,)).tolist()
    return [torch.randint(1, WORDS, (length,)) for length in lengths]


def pad(samples: list[Tensor]) -> Tensor:
    """Pad the sentences of a batch to the longest of them."""
    return pad_sequence(samples, batch_first=True)


def fit(loader: DataLoader[Tensor]) -> None:
    """Train for an epoch under the monitor, which prints its table."""
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu_sim", devices=1, max_epochs=1, callbacks=[RecompilationMonitor()], **quiet)  # type: ignore[arg-type]
    trainer.fit(Classifier(), loader)


def main() -> None:
    """Train both ways."""
    seed_everything(1)
    data = sentences(512)
    print("as they come:", flush=True)
    fit(DataLoader(data, batch_size=4, collate_fn=pad))  # type: ignore[arg-type]  # a list is a data set

    lengths = [len(sentence) for sentence in data]
    boundaries = quantile_boundaries(lengths, 4)
    sampler = BucketBatchSampler(lengths, 4, boundaries, shuffle=True, drop_last=True)
    print(f"padded to {boundaries}:", flush=True)
    fit(DataLoader(data, batch_sampler=sampler, collate_fn=PaddingCollate(boundaries)))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
