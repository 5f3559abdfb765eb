"""The suite's forked processes, which give the answers of new ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.forks import processes
from tests.forks.suite import begin, forking, may_be_asked_in_a_fork, may_be_forked

from northbridge.discovery import declared
from northbridge_conformance.runs.processes import environ_of_runs
from northbridge_conformance.runs.question import ANSWER
from northbridge_conformance.runs.scenario import Scenario

SCENARIO = Scenario("cpu", "lightning.pytorch", ("training",))
RANKS = {"namespace": "", "launch": "ranks", "steps": ("groups", "waits")}


@pytest.mark.parametrize(
    ("differs", "forked"),
    [
        ({}, True),
        ({"accelerator": "cpu_sim"}, True),
        ({"accelerator": "auto"}, False),
        ({"launch": "torchrun"}, False),
        ({"launch": "two nodes"}, True),
        ({"launch": "two nodes", "accelerator": "cpu_sim"}, False),
        (RANKS, True),
        ({**RANKS, "accelerator": "cpu_sim"}, False),
        ({**RANKS, "accelerator": "cpu_sim", "devices": 4}, True),
        ({**RANKS, "accelerator": "cpu_sim", "steps": ("waits",)}, True),
    ],
)
def test_runs_that_are_forked(differs: dict[str, Any], forked: bool) -> None:
    assert may_be_forked(replace(SCENARIO, **{"devices": 2, **differs})) is forked


def test_a_real_chip_begins_as_a_users_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = declared.load("cpu_sim")
    real = replace(backend, capabilities=replace(backend.capabilities, simulated=False))
    monkeypatch.setitem(declared._declared, "cpu_sim", real)

    assert not may_be_forked(replace(SCENARIO, accelerator="cpu_sim"))


@pytest.mark.parametrize(
    ("question", "arguments", "forked"),
    [
        ("software:load", ("cpu_sim", "0", "1"), True),
        ("software:load", ("hpu", "0", "1"), False),
        ("software:fill_memory", ("cpu_sim",), True),
        ("software:fill_memory", ("hpu",), False),
        ("plugin:miss_hardware", ("hpu", "lightning.pytorch"), True),
        ("plugin:miss_software", ("hpu", "habana_frameworks", "lightning.pytorch"), True),
        ("plugin:miss_software", ("hpu", "", "lightning.pytorch"), False),
        ("plugin:declare", ("cpu_sim",), False),
    ],
)
def test_question_forked(
    question: str, arguments: tuple[str, ...], forked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vendor's software is loaded in a process afresh."""
    monkeypatch.delenv("NORTHBRIDGE_SIMULATE", raising=False)

    assert may_be_asked_in_a_fork(question, *arguments) is forked


def test_question_has_lightning(tmp_path: Path) -> None:
    """The variables that a question is asked under need no server of their own, and reach it all the same."""
    questions = tmp_path / "plugin.py"
    questions.write_text(
        "import os, sys\n"
        "def miss_hardware(name): return {'lightning': 'lightning' in sys.modules, 'rank': os.environ['ANVIL_RANK']}\n"
    )
    reply = tmp_path / "reply.json"
    before = {*processes.servers()}
    for rank in ("1", "2"):
        command = [ANSWER, os.pathsep.join(sys.path), str(questions), "miss_hardware", str(reply), "acme"]
        with (tmp_path / "said.txt").open("wb") as said:
            process = begin(command, {**environ_of_runs(), "ANVIL_RANK": rank}, tmp_path, said)
        assert process.wait() == 0, (tmp_path / "said.txt").read_text()
        assert json.loads(reply.read_text()) == {"lightning": True, "rank": rank}

    assert len({*processes.servers()} - before) <= 3  # with torch, with what compiles, and with Lightning


def test_pytest_of_the_suite_forks_what_it_starts(tmp_path: Path) -> None:
    """A pytest outside the repository finds the plugin, and starts what it starts by forks from then on."""
    (tmp_path / "test_starts.py").write_text(
        "from northbridge_conformance.runs.processes import _starts\n"
        "def test_starts(): assert [each.__module__ for each in _starts[1:]] == ['tests.forks.suite']\n"
    )
    environ = forking({**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "test_starts.py"]
    said = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stdout + said.stderr
