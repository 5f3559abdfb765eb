"""What is touched of the vendor's software: where ``NORTHBRIDGE_CPU_SIM_RECORD`` names a folder, it is written down."""

from __future__ import annotations

from northbridge_cpu_sim import Record

RECORD = Record("torch_sdaa", "northbridge_sdaa.simulated", names={"torch_sdaa.sdaa": "torch.sdaa"})

put, variable, watch = RECORD.put, RECORD.variable, RECORD.watch
