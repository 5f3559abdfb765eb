"""Write cpu.ckpt as lightning-Habana would have (old.ckpt), and as torch.save on the chip would (tagged.ckpt)."""

import torch
from lightning.fabric.utilities.apply_func import move_data_to_device

import northbridge

northbridge.load("hpu")
checkpoint = torch.load("cpu.ckpt", weights_only=False)
checkpoint["pytorch-lightning_version"] = "2.4.0"  # the last that lightning-Habana was made for
torch.save(move_data_to_device(checkpoint, torch.device("cpu")), "old.ckpt")
torch.save(move_data_to_device(checkpoint, torch.device("hpu:0")), "tagged.ckpt")
