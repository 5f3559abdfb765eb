"""The suite's forked processes, which give the answers of new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.forks.suite import may_be_asked_in_a_fork, may_be_forked

from northbridge.discovery import declared
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
