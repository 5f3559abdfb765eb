"""Record of uses of Intel's variables, in the folder of ``NORTHBRIDGE_CPU_SIM_RECORD``."""

from __future__ import annotations

from northbridge_cpu_sim import Record

RECORD = Record("torch.xpu", "northbridge_xpu.simulated")

variable = RECORD.variable
