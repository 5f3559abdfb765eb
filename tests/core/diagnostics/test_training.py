"""The self-test: it trains where a chip trains, and fails where one does not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.core.command import command
from tests.core.conftest import Install
from tests.scripts import run_python

from northbridge.diagnostics import training
from northbridge.diagnostics.backends import BackendReport, BackendRow
from northbridge.diagnostics.training import SelfTest, train
from northbridge.lightning.namespaces import NAMESPACES
from northbridge.lightning.versions import INSTALL
from northbridge.processes.child import Queue, Reply, Stage

READY = BackendReport(BackendRow("acme", "1.0", "northbridge-acme", "ready", True, 2, False))
PASSED = {"device": "acme:0", "first_loss": 1.7, "last_loss": 0.1, "seconds": 0.5, "equal": True}


class Answers(Queue):
    """A queue in which every child says the same."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def ask(self, who: str, question: str, stages: Mapping[str, Stage]) -> Reply:
        return self.reply


def reasons(reply: Reply, report: BackendReport = READY, namespace: str = "lightning.pytorch") -> list[str]:
    trained = train(Answers(reply), [report], NAMESPACES.get(namespace), 1.0)
    return [each.reason for each in trained[report.states.name]]


def test_the_simulated_chip_trains_on_one_card_and_on_two(tmp_path: Path) -> None:
    # What a cluster's job has in its environment says nothing about this test of one machine.
    environ = {**os.environ, "NODE_RANK": "0", "WORLD_SIZE": "16", "SLURM_NTASKS": "16", "SLURM_JOB_NAME": "job"}

    doctor = command("doctor", "cpu_sim", "--train", "--output", "found.json")
    run = run_python("-c", doctor, folder=tmp_path, environ=environ)

    one, two = json.loads((tmp_path / "found.json").read_text())["trainings"]["cpu_sim"]
    for each in (one, two):
        assert (each["reason"], each["device"], each["simulated"]) == ("", "cpu_sim:0", True)
        assert each["through"] == "lightning.pytorch.Trainer"
        assert each["last_loss"] < 0.01 < each["first_loss"]
        assert each["seconds"] > 0
    assert (one["cards"], two["cards"]) == (1, 2)
    page = " ".join(run.stdout.split())
    assert "self-test through lightning.pytorch.Trainer on a SIMULATED chip: this says nothing about a real one" in page
    assert page.endswith("Nothing is wrong.")
    assert run.returncode == 0


def in_children(name: str, namespace: str, devices: int) -> list[SelfTest]:
    report = BackendReport(BackendRow(name, "1.0", name, "ready", True, devices, False))

    with Queue(lambda _who, _what: None) as queue:
        return list(train(queue, [report], NAMESPACES[namespace], load_seconds=200.0)[name])


def test_a_fabric_trains_too() -> None:
    trained = in_children("cpu_sim", "lightning_fabric", 2)

    assert [(each.through, each.reason) for each in trained] == [("lightning_fabric.Fabric", "")] * 2


def test_a_chip_that_cannot_train_fails_with_its_own_words(install_here: Install) -> None:
    install_here("acme")

    (one,) = in_children("acme", "lightning.pytorch", 1)

    assert "acme" in one.reason
    assert "RuntimeError: " in one.reason or "NotImplementedError: " in one.reason


def test_a_training_that_hangs_is_given_up(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install_here("contracted")
    monkeypatch.setattr(training, "TRAIN_SECONDS", 2.0)

    (one,) = in_children("contracted", "lightning.pytorch", 1)

    assert one.reason.startswith("its process took longer than 2 s while training on 1 card")
    assert one.reason.endswith(". Fix: check that no other process holds the cards, and that the ranks can connect")


@pytest.mark.parametrize(
    ("status", "devices", "namespace", "found"),
    [
        ("ready", 1, "lightning.pytorch", [""]),
        ("no hardware", 0, "lightning.pytorch", []),
        ("ready", 2, "none", [f"no Lightning is served here. Fix: {INSTALL}"] * 2),
    ],
    ids=["one card", "not ready", "without Lightning"],
)
def test_each_number_of_cards_is_tried(status: Any, devices: int, namespace: str, found: list[str]) -> None:
    report = BackendReport(BackendRow("acme", "1.0", "northbridge-acme", status, True, devices, False))

    assert reasons(Reply(PASSED), report, namespace) == found


def test_a_chip_without_a_library_trains_on_one_card() -> None:
    report = BackendReport(BackendRow("acme", "1.0", "northbridge-acme", "ready", True, 4, alone=True))

    assert reasons(Reply(PASSED), report) == [""]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(PASSED), ""),
        (
            Reply({**PASSED, "last_loss": 1.7}),
            "the loss did not go down: 1.7 at first, 1.7 at last; the chip's results",
        ),
        (Reply({**PASSED, "last_loss": float("nan")}), "the loss did not go down: 1.7 at first, nan at last;"),
        (
            Reply({**PASSED, "equal": False}),
            "the ranks hold different weights afterwards, though no call failed: their gradients were not reduced",
        ),
        (Reply({"error": "OSError: no driver"}), "OSError: no driver"),
        (
            Reply(ending="took longer than 60 s while training on 2 cards; do"),
            "its process took longer than 60 s while",
        ),
    ],
)
def test_a_training_fails_for_a_reason(reply: Reply, reason: str) -> None:
    assert [each.startswith(reason) and bool(each) is bool(reason) for each in reasons(reply)] == [True, True]
