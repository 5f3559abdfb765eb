"""Train while another job trains on the same machine."""

from __future__ import annotations

import time
from pathlib import Path

from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import _Classifier, classifier, facts, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario

MODEL = "convnet"

_BATCHES = 40
_LIMIT_S = 120.0
_FAILED = "failed"


def perform(scenario: Scenario, folder: Path) -> None:
    """Train; report the weights and when the training began and ended. With another job, wait for it first.

    ``scenario.resume`` is the folder in which the two jobs meet, or empty for a job that runs alone.
    """
    host = trainer(scenario, folder)
    module = classifier(scenario.namespace, MODEL, folder, "side_by_side", _Accompanying)
    module.meeting = meeting = Path(scenario.resume) if scenario.resume else None
    try:
        host.fit(module, loader(8 * _BATCHES * host.world_size, shuffle=False))
    except BaseException:
        if meeting is not None:
            (meeting / _FAILED).touch()
        raise


def _meet(meeting: Path, name: str) -> None:
    """Wait until both jobs are here; raise if the other job failed before."""
    (meeting / name).touch()
    until = time.monotonic() + _LIMIT_S
    while len(here := [each.name for each in meeting.iterdir()]) < 2 or _FAILED in here:
        if _FAILED in here:
            raise RuntimeError("the other job failed before it trained")
        if time.monotonic() > until:
            raise TimeoutError(f"the other job did not begin to train within {_LIMIT_S:g} s")
        time.sleep(0.01)


class _Accompanying(_Classifier):
    meeting: Path | None = None

    def on_train_start(self) -> None:
        if self.meeting is not None:
            _meet(self.meeting, self.folder.name)
        self.began = time.time()

    def on_train_end(self) -> None:
        self.trainer.strategy.backend.device.synchronize()
        found = {"began": self.began, "ended": time.time(), **facts(self, self.trainer.strategy)}
        write(self.folder, self.topic, self.global_rank, found)
