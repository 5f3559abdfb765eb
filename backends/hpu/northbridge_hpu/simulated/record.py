"""Record of uses of the vendor's software, in the folder of ``NORTHBRIDGE_CPU_SIM_RECORD``."""

from __future__ import annotations

from northbridge_cpu_sim import Record

RECORD = Record(
    "habana_frameworks",
    "habana_dataloader",
    "pyhlml",
    "northbridge_hpu.simulated",
    names={"habana_frameworks.torch.core.hpu": "torch.hpu", "habana_frameworks.torch.hpu": "torch.hpu"},
)

put, set_variable, variable, watch = RECORD.put, RECORD.set_variable, RECORD.variable, RECORD.watch
