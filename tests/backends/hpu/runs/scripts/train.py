"""Train a small model, and say which card each rank held: python train.py devices=8 num_nodes=1"""

import hashlib
import os
import sys

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel

from northbridge_hpu.simulated.machine import server

asked = dict(each.split("=") for each in sys.argv[1:])
seed_everything(1)
trainer = Trainer(
    accelerator="hpu",
    devices=int(asked["devices"]),
    num_nodes=int(asked.get("num_nodes", 1)),
    max_steps=4,
    logger=False,
    enable_checkpointing=False,
)
model = BoringModel()
trainer.fit(model)

weights = hashlib.sha256(b"".join(each.detach().cpu().numpy().tobytes() for each in model.parameters())).hexdigest()
(card,) = (card for card in range(8) if server().holder(card) == os.getpid())  # whose lock it is, and nobody's word
mine = f"node {trainer.node_rank}, card {card}, module {os.environ['HLS_MODULE_ID']}", weights
everybody = [mine] * trainer.world_size
if trainer.world_size > 1:
    torch.distributed.all_gather_object(everybody, mine)
if trainer.is_global_zero:
    for rank, (place, _) in enumerate(everybody):
        print(f"rank {rank}: {place}")
    print("the ranks hold", len({each for _, each in everybody}), "set of weights")
