"""The graphs that ``torch.compile`` has compiled, as its own counters have them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from northbridge.lightning.callbacks import distinct_graphs
from northbridge.lightning.callbacks.distinct_graphs import SeenGraph

STAGE = "torch.compile"


class CompiledGraphs:
    """Count what ``torch.compile`` compiles from now on. It costs one look into a table a step."""

    def __init__(self) -> None:
        self.count: int = 0
        """Number of compiled graphs."""

        self._counter = _counter()
        self._known = {each.compile_id for each in _compilations()}

    def new(self, step: int) -> list[SeenGraph]:
        """Return the compilations since the last call, each with its function and the reason that torch gives."""
        counter = _counter()
        if counter == self._counter:
            return []
        self.count += counter - self._counter if counter > self._counter else counter  # somebody has reset it
        self._counter = counter
        found = [each for each in _compilations() if each.compile_id not in self._known]
        self._known |= {each.compile_id for each in found}
        return [SeenGraph(STAGE, step, _place(each), _reason(each), steps=0) for each in found]


def _counter() -> int:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")  # nothing is compiled before torch imports it
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


def _compilations() -> list[Any]:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    found = [] if dynamo is None else dynamo.get_compilation_metrics()  # torch keeps the last 64
    ours = distinct_graphs.__file__  # the hooks of the watch
    return [
        each
        for each in found
        if each.co_name and each.co_filename != ours and getattr(each, "is_forward", True) is not False
    ]


def _place(compilation: Any) -> str:
    file = Path(compilation.co_filename or "?").name
    return f"{compilation.co_name} ({file}:{compilation.co_firstlineno})"


def _reason(compilation: Any) -> str:
    reason = getattr(compilation, "recompile_reason", None)  # from torch 2.6 on
    return str(reason).splitlines()[0] if reason else "compiled for the first time"
