"""Hold the first card until Enter is pressed."""

import os

import northbridge

hpu = northbridge.load("hpu")
hpu.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
hpu.device.select(0)
input(f"process {os.getpid()} holds module {os.environ['HLS_MODULE_ID']}\n")
