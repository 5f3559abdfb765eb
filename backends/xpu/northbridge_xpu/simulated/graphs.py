"""The names of ``torch._C`` about graphs, for ``torch.xpu``: torch's graphs of any accelerator."""

from __future__ import annotations

import itertools
from typing import Literal

from torch._C import _acceleratorGraph
from typing_extensions import Self

from northbridge_xpu.simulated.memory import without

_handles = itertools.count(1)
_captures = 0


class _XPUGraph(_acceleratorGraph):
    """A graph of the simulated chip, under torch's names."""

    def __new__(cls, keep_graph: bool = False) -> Self:
        return super().__new__(cls, keep_graph)

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: Literal["default", "global", "thread_local", "relaxed"] = "default",
    ) -> None:
        """Capture the work of the device from now on."""
        global _captures
        super().capture_begin(pool, capture_error_mode)
        _captures += 1

    def capture_end(self) -> None:
        """End the capture."""
        global _captures
        _captures -= 1
        super().capture_end()

    raw_xpu_graph = raw_xpu_graph_exec = without("graph of SYCL's")


def _xpu_graph_pool_handle() -> tuple[int, int]:
    """Return the number of a new pool."""
    return 0, next(_handles)


def _xpu_isCurrentStreamCapturing() -> bool:
    """Return True while a graph captures."""
    return _captures > 0
