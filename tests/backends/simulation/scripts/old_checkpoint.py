"""Write cpu.ckpt as another package would have (old.ckpt), and as torch.save on the chip would (tagged.ckpt).

python old_checkpoint.py accelerator
"""

import sys

import torch
from lightning.fabric.utilities.apply_func import move_data_to_device

import northbridge

accelerator = sys.argv[1]
northbridge.load(accelerator)
checkpoint = torch.load("cpu.ckpt", weights_only=False)
checkpoint["pytorch-lightning_version"] = "2.4.0"  # the oldest that is supported
torch.save(move_data_to_device(checkpoint, torch.device("cpu")), "old.ckpt")
torch.save(move_data_to_device(checkpoint, torch.device(f"{accelerator}:0")), "tagged.ckpt")
