"""The vendor's counts of compiled graphs, over the graphs that the simulated card has run.

The card compiles nothing, so that times are 0; a graph is compiled when it runs for the first time in a process. It
runs every operator itself and moves no memory, so that the counts of both stay 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from northbridge_cpu_sim import graph_runs
from northbridge_hpu.simulated.record import variable

Statistics = list[tuple[str, Any]]


class MetricNotFound(Exception):
    """There is no metric of this name."""


class InvalidMetricDumpFileFormat(Exception):
    """The vendor's software declares it, and does not raise it."""


class InvalidMetricDumpTrigger(Exception):
    """The vendor's software declares it, and does not raise it."""


class Metric:
    """What was counted between ``start()`` and ``stop()``, or since ``reset()``. A new metric has started."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self._counted: Counter[int] = Counter()
        self._compiled: set[int] = set()
        self._since: Counter[int] | None = None
        self.start()

    def name(self) -> str:
        """Return the name of the metric."""
        return self.kind

    def start(self) -> None:
        """Begin to count, or go on; no effect if it counts."""
        if self._since is None:
            self._since = Counter(graph_runs())

    def stop(self) -> None:
        """End the counting; the statistics stay."""
        self._update()
        self._since = None

    def reset(self) -> None:
        """Forget what was counted."""
        self._update()
        self._counted.clear()
        self._compiled.clear()

    def stats(self) -> Statistics:
        """Return the statistics as pairs of name and value."""
        self._update()
        return self._statistics()

    def _update(self) -> None:
        if self._since is None:
            return
        now = Counter(graph_runs())
        self._compiled |= now.keys() - self._since.keys()
        self._counted += now - self._since
        self._since = now

    def _statistics(self) -> Statistics:
        raise NotImplementedError


class GraphCompilation(Metric):
    """The graphs that were compiled."""

    kind = "graph_compilation"

    def _statistics(self) -> Statistics:
        statistics: Statistics = [("TotalNumber", len(self._compiled)), ("TotalTime", 0), ("AvgTime", 0)]
        if _is_on("PT_HPU_METRICS_GC_DETAILS"):
            statistics.append(("recipe", [(str(graph), 0) for graph in sorted(self._compiled)]))
        return statistics


class CPUFallback(Metric):
    """The operators that ran on the host."""

    kind = "cpu_fallback"

    def _statistics(self) -> Statistics:
        return [("TotalNumber", 0), ("FallbackOps", {})]


class MemoryDefragmentation(Metric):
    """The moves of memory."""

    kind = "memory_defragmentation"

    def _statistics(self) -> Statistics:
        return [("TotalNumber", 0), ("TotalSuccessful", 0), ("AvgTime", 0), ("MaxTime", 0)]


class RecipeCache(Metric):
    """The graphs that were found among the compiled ones, or not."""

    kind = "recipe_cache"

    def _statistics(self) -> Statistics:
        misses = dict.fromkeys(map(str, sorted(self._compiled)), 1)
        hits = {str(graph): runs - (graph in self._compiled) for graph, runs in sorted(self._counted.items())}
        hits = {graph: runs for graph, runs in hits.items() if runs}
        return [
            ("TotalHit", sum(hits.values())),
            ("RecipeHit", hits),
            ("TotalMiss", len(misses)),
            ("RecipeMiss", misses),
        ]


_kinds: dict[str, type[Metric]] = {}
_global: dict[str, Metric] = {}


def start() -> None:
    """Create the metrics of the process. The vendor's import does so."""
    kinds: list[type[Metric]] = [GraphCompilation, CPUFallback, MemoryDefragmentation]
    kinds += [RecipeCache] if _is_on("PT_HPU_ENABLE_CACHE_METRICS") else []
    _kinds.update({kind.kind: kind for kind in kinds})
    _global.update({kind.kind: kind() for kind in kinds})


def metrics_of_process() -> list[Metric]:
    """Return the metrics that count from the import on."""
    return list(_global.values())


def metric_global(name: str) -> Metric | None:
    """Return the metric ``name`` of the process; None for an unknown name."""
    return _global.get(name)


@contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    """Yield a metric that counts inside the ``with``. Raises MetricNotFound for an unknown name."""
    if name not in _kinds:
        raise MetricNotFound(f"Metric with given name ({name}) doesn't exist.")
    metric = _kinds[name]()
    try:
        yield metric
    finally:
        metric.stop()


def _is_on(name: str) -> bool:
    return (variable(name) or "").lower() in {"y", "yes", "t", "true", "on", "1"}
