"""Train on a GPU by the name "nb_cuda", save, and read the checkpoint on the CPU.

    python demo.py

`--accelerator` names another one. The script does not import Northbridge.
"""

from __future__ import annotations

import argparse

import torch
from lightning.pytorch import Trainer, seed_everything
from transformer import SMALL, Reverser, make_batches


def main() -> None:
    """Train, save, read the checkpoint on the CPU, and print the results."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--accelerator", default="nb_cuda")
    arguments.add_argument("--devices", type=int, default=1)
    arguments.add_argument("--steps", type=int, default=600)
    asked = arguments.parse_args()

    seed_everything(0, verbose=False)
    model = Reverser(SMALL)
    trainer = Trainer(
        accelerator=asked.accelerator,
        devices=asked.devices,
        precision="bf16-mixed",
        max_steps=asked.steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, make_batches(SMALL, asked.steps * asked.devices))
    trainer.save_checkpoint("reverser.ckpt")
    if not trainer.is_global_zero:
        return

    device = trainer.strategy.root_device
    print(f"trained on {device}; loss {model.losses[0]:.3f} to {model.losses[-1]:.3f} in {trainer.global_step} steps")

    reader = Reverser(SMALL)
    reader.load_state_dict(torch.load("reverser.ckpt", weights_only=True, map_location="cpu")["state_dict"])
    words = torch.randint(SMALL.words, (256, SMALL.length))
    with torch.no_grad():
        right = (reader(words).argmax(-1) == words.flip(1)).float().mean().item()
    print(f"read on the CPU: {right:.0%} of the words of new sequences are right")


if __name__ == "__main__":
    main()
