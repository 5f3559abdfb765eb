"""The self-test: a tiny model trained on one card, then on two, each time in new processes."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from northbridge.launch.environment import VARIABLES
from northbridge.processes.child import Reply, Stage
from northbridge.processes.environment import import_path

if TYPE_CHECKING:
    from northbridge.diagnostics.backends import BackendReport
    from northbridge.lightning.namespaces import Namespace
    from northbridge.processes.child import Queue

TRAIN_SECONDS = 60.0
"""Time limit for one training, after the software is loaded."""

_MEASURED = ("device", "first_loss", "last_loss", "seconds")
_PATIENCE = "check that no other process holds the cards, and that the ranks can connect"


@dataclass(frozen=True)
class SelfTest:
    """One training; ``reason`` says why it failed, and is empty if it passed."""

    cards: int
    through: str
    """The namespace, and its Trainer or Fabric; empty if there is no Lightning."""
    simulated: bool
    device: str = ""
    first_loss: float | None = None
    last_loss: float | None = None
    seconds: float | None = None
    reason: str = ""


def train(
    queue: Queue, reports: Iterable[BackendReport], namespace: Namespace | None, load_seconds: float
) -> dict[str, tuple[SelfTest, ...]]:
    """Train on each backend that is ready, and return the results."""
    ended: dict[str, tuple[SelfTest, ...]] = {}
    for report in reports:
        devices = (report.states.devices or 0) if report.states.status == "ready" else 0
        most = 1 if report.states.alone else 2
        # One after the other: a card serves one process.
        trainings = [
            _train(queue, report, namespace, cards, load_seconds) for cards in (1, 2) if cards <= min(devices, most)
        ]
        ended[report.states.name] = tuple(trainings)
    return ended


def _train(
    queue: Queue, report: BackendReport, namespace: Namespace | None, cards: int, load_seconds: float
) -> SelfTest:
    name, simulated = report.states.name, bool(report.states.simulated)
    if namespace is None:
        from northbridge.lightning.versions import INSTALL

        return SelfTest(cards, "", simulated, reason=f"no Lightning is served here. Fix: {INSTALL}")
    stages = {
        "load": Stage(f"loading {namespace.name} and the software", load_seconds, "check the driver"),
        "train": Stage(f"training on {cards} card{'s' * (cards > 1)}", TRAIN_SECONDS, _PATIENCE),
    }
    # In an empty folder: Lightning starts the ranks with `python -m`, which looks for modules in the current folder.
    with TemporaryDirectory() as folder:
        question = f"from {__name__} import begin; begin({name!r}, {namespace.name!r}, {cards}, {folder!r})"
        reply = queue.ask(name, question, stages)
    known = {fact: value for fact, value in reply.facts.items() if fact in _MEASURED}
    return SelfTest(cards, f"{namespace.name}.{namespace.host}", simulated, **known, reason=_reason_against(reply))


def begin(name: str, namespace: str, cards: int, folder: str) -> None:
    """Run the self-test in this process, the child, as ``python -m`` does; Lightning does the same in each rank."""
    # The run uses only this machine, even if this environment was made for another run.
    for variable in ("MASTER_ADDR", "MASTER_PORT", "STANDALONE_PORT", "GROUP_RANK", *VARIABLES["lightning"]):
        os.environ.pop(variable, None)
    # The ranks import from the same folders as this process.
    os.environ["PYTHONPATH"] = os.pathsep.join(import_path())
    os.chdir(folder)
    sys.argv[1:] = [name, namespace, str(cards)]
    runpy.run_module("northbridge.diagnostics.training_child", run_name="__main__", alter_sys=True)


def _reason_against(reply: Reply) -> str:
    if reply.ending:
        return f"its process {reply.ending}"
    if error := reply.facts.get("error"):
        return str(error)
    first, last = reply.facts["first_loss"], reply.facts["last_loss"]
    if not last < first:  # True for nan too
        return f"the loss did not go down: {first:.3g} at first, {last:.3g} at last; the chip's results are wrong"
    if not reply.facts["equal"]:
        return "the ranks hold different weights afterwards, though no call failed: their gradients were not reduced"
    return ""
