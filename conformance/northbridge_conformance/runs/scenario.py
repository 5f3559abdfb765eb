"""A run that the suite starts in its own processes: its steps, devices and launch, its findings and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Launch = Literal["script", "torchrun", "restarts", "two nodes", "ranks"]
"""The launcher of the ranks: Lightning from one script, torchrun (with "restarts" it restarts them once if they fail),
Lightning on each of two nodes, or the suite.
"""

FAILED = "failed "
"""Prefix of the topic of a failed step."""

REFUSED = "refused "
"""Prefix of the topic of an unsupported step."""

BEGINS = "process {} begins the step {}"
"""The line, with the process id, that a process prints when it begins a step."""

LAST = "end"
"""The step in the last such line of a process, which has then run all of its steps."""

Findings = dict[str, list[dict[str, Any]]]
"""Every rank's findings for each topic, rank 0 first."""

_END = ".finding.json"


class RunError(RuntimeError):
    """A process of the run failed; the message ends with the output of the processes."""


class HungError(RunError):
    """The run exceeded its limit; the message has the stack of each of its processes."""


@dataclass(frozen=True)
class Scenario:
    """The steps of a run, with the arguments of its Trainer or Fabric."""

    accelerator: str
    namespace: str
    steps: tuple[str, ...]
    """References to functions that every process calls one after another, with the scenario and the run's folder."""

    devices: int | tuple[int, ...] = 1
    strategy: str = "auto"
    launch: Launch = "script"
    models: tuple[str, ...] = ("mlp", "convnet", "transformer", "tied", "ensemble")
    resume: str = ""
    """The folder of the run whose checkpoints are loaded; empty for those of this run."""

    @property
    def alone(self) -> bool:
        """True if the run is one process."""
        return self.launch == "script" and self.ranks == 1

    @property
    def num_nodes(self) -> int:
        """The number of nodes: 2 for the launch that simulates two nodes on one machine."""
        return 2 if self.launch == "two nodes" else 1

    @property
    def ranks(self) -> int:
        """The number of ranks on all nodes."""
        return (self.devices if isinstance(self.devices, int) else len(self.devices)) * self.num_nodes

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """Return the scenario that :meth:`to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        return cls(**fields)

    def to_json(self) -> str:
        """Return the scenario as one line of text."""
        return json.dumps(asdict(self))


def reference(function: Callable[[Scenario, Path], None]) -> str:
    """Return ``module:function``, the step that calls ``function``."""
    return f"{function.__module__}:{function.__name__}"


def name_of(step: str) -> str:
    """Return the name of the function that ``step`` calls: a word in each topic of its findings."""
    return step.rpartition(":")[2]


def write(folder: Path, topic: str, rank: int, facts: dict[str, Any]) -> None:
    """Write the findings of ``rank`` about ``topic``; they must fit into JSON.

    A file and not a collective, because the collectives themselves are under test.
    """
    (folder / f"{topic}.{rank:03}{_END}").write_text(json.dumps(facts))


def read(folder: Path) -> Findings:
    """Return all findings in ``folder``."""
    findings: Findings = {}
    for path in sorted(folder.glob(f"*{_END}")):
        topic = path.name.removesuffix(_END).rpartition(".")[0]
        findings.setdefault(topic, []).append(json.loads(path.read_text()))
    return findings
