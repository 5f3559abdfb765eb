"""The files that the vendor's metrics are written to, one for each rank."""

from __future__ import annotations

import atexit
import json
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TextIO

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated.metrics import Metric, metrics_of_process
from northbridge_hpu.simulated.record import variable


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
    """Read the variables for the file of this process. Raises KeyError for an unknown format or trigger."""
    global _file
    name = _asked("FILE")
    if not name:
        return
    _triggers.update(Trigger[each] for each in (_asked("DUMP_TRIGGERS") or "process_exit").split(","))
    _file = MetricsFile(name, FileFormat[_asked("FILE_FORMAT") or "json"])
    atexit.register(_end)


def write(trigger: Trigger, *, changed: str = "") -> None:
    """Write the metrics at an event, once the process has a card; those called ``changed``, or else all."""
    if _file is not None and trigger in _triggers and chip.is_initialized():
        _file.write((each for each in metrics_of_process() if changed in ("", each.name())), trigger)


def metrics_dump(file_name: str, format: str = "json") -> None:  # noqa: A002 - the vendor's name
    """Write the metrics of the process to a file of this name, or of this rank's."""
    file = MetricsFile(file_name, FileFormat[format])
    file.write(metrics_of_process(), Trigger.user)
    file.close()


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
