"""Record of uses of the vendor's software, in the folder of ``NORTHBRIDGE_CPU_SIM_RECORD``."""

from __future__ import annotations

from northbridge_cpu_sim import Record

RECORD = Record("torch_npu", "northbridge_npu.simulated", names={"torch_npu.npu": "torch.npu"})
