"""Record of uses of the vendor's software, in the folder of ``NORTHBRIDGE_CPU_SIM_RECORD``."""

from __future__ import annotations

from northbridge_cpu_sim import Record

RECORD = Record("torch_sdaa", "northbridge_sdaa.simulated", names={"torch_sdaa.sdaa": "torch.sdaa"})

put, variable, watch = RECORD.put, RECORD.variable, RECORD.watch
