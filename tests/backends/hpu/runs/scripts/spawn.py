"""Train on two cards by processes that this one spawns: python spawn.py"""

import os

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

from northbridge_hpu.simulated.machine import server


class Model(BoringModel):
    def on_train_end(self) -> None:
        holders = [server().holder(card) for card in range(8)]
        mine, parents = holders.count(os.getpid()), holders.count(os.getppid())
        print(f"rank {self.global_rank} holds {mine} card, the parent {parents}\n", end="")


if __name__ == "__main__":
    trainer = Trainer(
        accelerator="hpu", devices=2, strategy="ddp_spawn", max_steps=4, logger=False, enable_checkpointing=False
    )
    trainer.fit(Model())
    print("the parent has initialized torch.hpu:", torch.get_device_module("hpu").is_initialized())
