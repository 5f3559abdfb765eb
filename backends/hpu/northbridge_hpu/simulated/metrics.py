"""The vendor's counts of compiled graphs, and the files that they are written to, one for each rank."""

from __future__ import annotations

import atexit
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, TextIO

from northbridge_cpu_sim import graph_runs, module as chip
from northbridge_hpu.simulated.machine import variable

Statistics = list[tuple[str, Any]]


class MetricNotFound(Exception):
    """There is no metric of this name."""


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


class FileFormat(str, Enum):
    """The format of a file."""

    json = "json"
    text = "text"


class Trigger(str, Enum):
    """The event at which metrics are written."""

    process_exit = "process_exit"
    mark_step = "mark_step"
    metric_change = "metric_change"
    user = "user"


class MetricsFile:
    """A file of metrics. It is created by its first entry, under the name of a file that does not exist yet."""

    def __init__(self, name: str, kind: FileFormat) -> None:
        self._name = _of_rank(name)
        self._kind = kind
        self._file: TextIO | None = None

    def write(self, metrics: Iterable[Metric], trigger: Trigger) -> None:
        """Add an entry for each of the metrics."""
        for metric in metrics:
            is_first = self._file is None
            file = self._file = self._file or _create(self._name)
            now = datetime.now()
            if self._kind is FileFormat.json:
                entry = {"metric_name": metric.name(), "triggered_by": trigger.value, "generated_on": now.isoformat()}
                file.write(("[" if is_first else ",\n") + json.dumps({**entry, "statistics": dict(metric.stats())}))
            else:
                file.write(f"Metric name: {metric.name()}\nTriggered by: {trigger.value}\nGenerated on: {now}\n")
                file.write("Statistics:\n" + "".join(f"\t{name}: {value}\n" for name, value in metric.stats()) + "\n")
            file.flush()

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._file.write("]\n" if self._kind is FileFormat.json else "")
            self._file.close()
            self._file = None


_file: MetricsFile | None = None
_triggers: set[Trigger] = set()


def start() -> None:
    """Create the metrics of the process, and their file. Raises KeyError for an unknown format or trigger."""
    global _file
    kinds: list[type[Metric]] = [GraphCompilation, CPUFallback, MemoryDefragmentation]
    kinds += [RecipeCache] if _is_on("PT_HPU_ENABLE_CACHE_METRICS") else []
    _kinds.update({kind.kind: kind for kind in kinds})
    _global.update({kind.kind: kind() for kind in kinds})
    name = _asked("FILE")
    if not name:
        return
    _triggers.update(Trigger[each] for each in (_asked("DUMP_TRIGGERS") or "process_exit").split(","))
    _file = MetricsFile(name, FileFormat[_asked("FILE_FORMAT") or "json"])
    atexit.register(_end)


def write(trigger: Trigger, *, changed: str = "") -> None:
    """Write the metrics at an event, once the process has a card; those called ``changed``, or else all."""
    if _file is not None and trigger in _triggers and chip.is_initialized():
        _file.write((each for each in _global.values() if changed in ("", each.name())), trigger)


def _end() -> None:
    write(Trigger.process_exit)
    if _file is not None:
        _file.close()


def _asked(name: str) -> str | None:
    value = variable(f"PT_HPU_METRICS_{name}")
    return value if value is not None else variable(f"HABANA_PT_METRICS_{name}")


def _of_rank(name: str) -> str:
    rank = variable("RANK")
    rank = rank if rank is not None else variable("OMPI_COMM_WORLD_RANK")
    if rank is None:
        return name
    base, dot, ending = name.rpartition(".")
    return f"{base}-rank{rank}.{ending}" if dot else f"{name}-rank{rank}"


def _create(name: str) -> TextIO:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        try:
            return Path(f"{name}.{number}" if number else name).open("x")
        except FileExistsError:
            number += 1
