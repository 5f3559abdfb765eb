"""Train a small model, and say on which device each rank ran: python train.py devices=8 num_nodes=1"""

import hashlib
import sys

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel

asked = dict(each.split("=") for each in sys.argv[1:])
seed_everything(1)
trainer = Trainer(
    accelerator="sdaa",
    devices=int(asked["devices"]),
    num_nodes=int(asked.get("num_nodes", 1)),
    max_steps=4,
    logger=False,
    enable_checkpointing=False,
)
model = BoringModel()
trainer.fit(model)

weights = hashlib.sha256(b"".join(each.detach().cpu().numpy().tobytes() for each in model.parameters())).hexdigest()
mine = f"node {trainer.node_rank}, device {torch.get_device_module('sdaa').current_device()}", weights
everybody = [mine] * trainer.world_size
if trainer.world_size > 1:
    torch.distributed.all_gather_object(everybody, mine)
if trainer.is_global_zero:
    for rank, (place, _) in enumerate(everybody):
        print(f"rank {rank}: {place}")
    print("the ranks hold", len({each for _, each in everybody}), "set of weights")
