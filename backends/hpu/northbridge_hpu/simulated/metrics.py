"""The vendor's counts of compiled graphs, and its tool that counts them for each module of a model."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.nn import Module

from northbridge_cpu_sim import graph_runs
from northbridge_hpu.simulated.machine import variable
from northbridge_hpu.simulated.markers import mark_step

Statistics = list[tuple[str, Any]]


class MetricNotFound(Exception):
    """There is no metric of this name."""


class Metric:
    """What was counted from its making to ``stop()``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._counted: Counter[int] = Counter()
        self._compiled: set[int] = set()
        self._since: Counter[int] | None = Counter(graph_runs())

    def name(self) -> str:
        """Return the name of the metric."""
        return self._kind

    def stop(self) -> None:
        """End the counting; the statistics stay."""
        self._update()
        self._since = None

    def stats(self) -> Statistics:
        """Return the statistics as pairs of name and value."""
        self._update()
        return _STATISTICS[self._kind](self._compiled, self._counted)

    def _update(self) -> None:
        if self._since is None:
            return
        now = Counter(graph_runs())
        self._compiled |= now.keys() - self._since.keys()
        self._counted += now - self._since
        self._since = now


def _recipes(compiled: set[int], counted: Counter[int]) -> Statistics:
    misses = dict.fromkeys(map(str, sorted(compiled)), 1)
    hits = {str(graph): runs - (graph in compiled) for graph, runs in sorted(counted.items())}
    hits = {graph: runs for graph, runs in hits.items() if runs}
    return [("TotalHit", sum(hits.values())), ("RecipeHit", hits), ("TotalMiss", len(misses)), ("RecipeMiss", misses)]


# Nothing runs on the host, and no memory is moved.
_STATISTICS: dict[str, Callable[[set[int], Counter[int]], Statistics]] = {
    "graph_compilation": lambda compiled, _: [("TotalNumber", len(compiled)), ("TotalTime", 0), ("AvgTime", 0)],
    "cpu_fallback": lambda *_: [("TotalNumber", 0), ("FallbackOps", {})],
    "memory_defragmentation": lambda *_: [("TotalNumber", 0), ("TotalSuccessful", 0), ("AvgTime", 0), ("MaxTime", 0)],
    "recipe_cache": _recipes,
}
_global: dict[str, Metric] = {}


def metric_global(name: str) -> Metric | None:
    """Return the metric ``name`` of the process; None for an unknown name."""
    return _global.get(name)


@contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    """Yield a metric that counts inside the ``with``. Raises MetricNotFound for an unknown name."""
    if name not in _global:
        raise MetricNotFound(f"Metric with given name ({name}) doesn't exist.")
    metric = Metric(name)
    try:
        yield metric
    finally:
        metric.stop()


def start() -> None:
    """Create the metrics of the process, which begin to count."""
    caches = (variable("PT_HPU_ENABLE_CACHE_METRICS") or "").lower() in {"y", "yes", "t", "true", "on", "1"}
    _global.update({kind: Metric(kind) for kind in _STATISTICS if caches or kind != "recipe_cache"})


# The tool that looks for dynamic shapes in a model

Kind = TypeVar("Kind", bound=Module)

_COLUMNS = ("Step", "Recompiling modules", "New in", "New out", "Class", "Location", "Comment")
_COUNTS = ("Module name", "Recompile count")


def detect_recompilation_auto_model(
    model: Kind,
    mdlname: str = "Net",
    waittime: float = 1,  # noqa: ARG001 - the simulated card compiles nothing in the background
    csv_out: str = "out",
) -> Kind:
    """Watch each module's forward for new graphs, and add ``analyse_dynamicity()``, which reports what was found.

    It prints the report, and writes ``<csv_out>_1.csv`` with each recompilation and ``<csv_out>_2.csv`` with the number
    of each module. In lazy mode each forward is a graph of its own. Raises AssertionError in a process group.
    """
    watch = _Watch(csv_out)
    watch.add(model, mdlname)
    vars(model)["analyse_dynamicity"] = watch.report
    return model


@dataclass
class _Watch:
    csv_out: str
    step: int = -1
    found: list[tuple[int, str, bool, bool, str, str, str]] = field(default_factory=list)
    level: int = 0

    def add(self, module: Module, name: str) -> None:
        """Wrap the forward of ``module`` and of the modules in it, each once."""
        if "_recompilation_watch" in vars(module):
            return
        vars(module)["_recompilation_watch"] = self
        vars(module)["forward"] = self._watched(module, name, module.forward)
        for child, each in module.named_children():
            self.add(each, f"{name}/{child}")

    def _watched(self, module: Module, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        inputs: set[object] = set()
        outputs: set[object] = set()

        def watched(*args: Any, **kwargs: Any) -> Any:
            assert not torch.distributed.is_initialized(), "the tool works in one process without a process group"
            self.step += self.level == 0
            self.level += 1
            mark_step()
            try:
                with metric_localcontext("graph_compilation") as metric:
                    result = forward(*args, **kwargs)
                    mark_step()
            finally:
                self.level -= 1
            is_new = _add(inputs, _shapes((args, kwargs))), _add(outputs, _shapes(result))
            if dict(metric.stats())["TotalNumber"]:
                self._note(module, name, *is_new)
            return result

        return watched

    def _note(self, module: Module, name: str, new_in: bool, new_out: bool) -> None:
        comment = "new input shape" if new_in else "known input shape, " + ("new" if new_out else "known") + " output"
        kind = type(module)
        file = getattr(inspect.getmodule(kind), "__file__", None) or "?"
        place = f"{kind.__module__}.{kind.__qualname__}"
        self.found.append((self.step, name, new_in, new_out, place, file, comment))

    def report(self) -> None:
        """Print what was found, and write the files."""
        counts = Counter(name for _, name, *_ in self.found).most_common()
        for number, columns, rows in ((1, _COLUMNS, sorted(self.found, key=lambda row: row[0])), (2, _COUNTS, counts)):
            lines = [[*map(str, row)] for row in (columns, *rows)]
            print(*map(" | ".join, lines), sep="\n")
            Path(f"{self.csv_out}_{number}.csv").write_text("\n".join(map(",".join, lines)) + "\n")


def _add(known: set[object], shapes: object) -> bool:
    is_new = shapes not in known
    known.add(shapes)
    return is_new


def _shapes(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, (list, tuple)):
        return tuple(map(_shapes, value))
    if isinstance(value, Mapping):
        return tuple((key, _shapes(each)) for key, each in value.items())
    return value if isinstance(value, (int, float, str, bytes, type(None))) else type(value)
