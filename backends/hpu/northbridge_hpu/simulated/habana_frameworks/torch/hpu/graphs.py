"""The names of ``torch.hpu.graphs``, which ``torch.hpu`` has too in lazy mode."""

from __future__ import annotations

from northbridge_hpu.simulated.graph_wrappers import (
    ModuleCacher as ModuleCacher,
    make_graphed_callables as make_graphed_callables,
    wrap_in_hpu_graph as wrap_in_hpu_graph,
    wrap_in_hpu_graph_func as wrap_in_hpu_graph_func,
)
from northbridge_hpu.simulated.graphs import (
    HPUGraph as HPUGraph,
    graph as graph,
    is_current_stream_capturing as is_current_stream_capturing,
)
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
