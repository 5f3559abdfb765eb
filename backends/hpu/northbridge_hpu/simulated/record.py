"""Record of uses of the vendor's software, in the folder of ``NORTHBRIDGE_CPU_SIM_RECORD``."""

from __future__ import annotations

from northbridge_cpu_sim import Record

_GRAPHS = (
    "HPUGraph",
    "ModuleCacher",
    "graph",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
)
"""Names that ``torch.hpu`` has in lazy mode alone: those of ``torch.hpu.graphs``."""

RECORD = Record(
    "habana_frameworks",
    "habana_dataloader",
    "pyhlml",
    "northbridge_hpu.simulated",
    names={
        **{f"habana_frameworks.torch.hpu.{name}": f"torch.hpu.graphs.{name}" for name in _GRAPHS},
        **{f"torch.hpu.{name}": f"torch.hpu.graphs.{name}" for name in _GRAPHS},
        "habana_frameworks.torch.core.hpu": "torch.hpu",
        "habana_frameworks.torch.hpu": "torch.hpu",
    },
)

put, set_variable, variable, watch = RECORD.put, RECORD.set_variable, RECORD.variable, RECORD.watch
