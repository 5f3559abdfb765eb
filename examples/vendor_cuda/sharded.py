"""Train with FSDP2 on one GPU by the name "nb_cuda", resume from the shards, and compare with a training without FSDP2.

    python sharded.py

On one rank each shard is the whole tensor, but every gather, reduction and shard of a checkpoint is made as on many.
`--accelerator` names another accelerator. Exit code 0 says that the losses agree, 1 that they do not.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformer import SMALL, Reverser, make_batches

BOUND = 1e-2
"""How far a loss may be from its counterpart, of about 4: a GPU adds up the gradients of `Embedding` in any order."""

CHECKPOINT = "sharded.ckpt"


class Sharded(Reverser):
    """The same model; FSDP2 shards each of its layers, and what is left together."""

    def configure_model(self) -> None:
        """Shard the model; Lightning calls this once the ranks have met."""
        mesh: Any = self.device_mesh
        for part in (*self.layers.layers, self):
            fully_shard(part, mesh=mesh["data_parallel"])


def train(
    model: Reverser, asked: argparse.Namespace, epochs: int, resumed: str | None = None, **options: Any
) -> Trainer:
    """Train ``model`` for so many ``epochs``, those of the checkpoint ``resumed`` included."""
    trainer = Trainer(
        accelerator=asked.accelerator,
        devices=1,
        precision="bf16-mixed",
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        **options,
    )
    trainer.fit(model, make_batches(SMALL, asked.steps), ckpt_path=resumed)
    return trainer


def build(kind: type[Reverser]) -> Reverser:
    """Return the model with the same weights each time."""
    seed_everything(0, verbose=False)
    return kind(SMALL)


def main() -> int:
    """Train three times, print what was found, and return the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--accelerator", default="nb_cuda")
    arguments.add_argument("--steps", type=int, default=10, help="steps of each of the two epochs")
    asked = arguments.parse_args()

    first, second, whole = build(Sharded), build(Sharded), build(Reverser)
    trainer = train(first, asked, 1, strategy=ModelParallelStrategy())
    trainer.save_checkpoint(CHECKPOINT)
    train(second, asked, 2, CHECKPOINT, strategy=ModelParallelStrategy())
    train(whole, asked, 2)

    parameters = list(second.parameters())
    shards = sum(isinstance(each, DTensor) for each in parameters)
    print(f"FSDP2 on {trainer.strategy.root_device}: {shards} of {len(parameters)} parameters are shards")
    losses, expected = torch.stack(first.losses + second.losses).cpu(), torch.stack(whole.losses).cpu()
    apart = (losses - expected).abs().max().item()
    agree = shards == len(parameters) and len(losses) == len(expected) and apart <= BOUND
    print(
        f"{len(losses)} steps, resumed after {len(first.losses)}: losses at most {apart:.1e} apart from those without"
        f" FSDP2, {'within' if agree else 'BEYOND'} {BOUND:g}"
    )
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
