"""The doctor, asked about the simulated Teco cards."""

from __future__ import annotations

import json
import os
from typing import Any
from unittest.mock import patch

import pytest
from tests.backends.sdaa.teco import TECO
from tests.backends.simulation.runs.doctor import ask

from northbridge.diagnostics.backends import report_on
from northbridge.diagnostics.examination import Depth, question
from northbridge.diagnostics.report import choose
from northbridge.processes.child import ask as ask_child


@pytest.mark.parametrize(
    ("registration", "words"),
    [
        ("renamed", "torch's spare device type, PrivateUse1, renamed to 'sdaa'"),
        ("patched", "a device type of its own, 'sdaa', in this torch"),
    ],
)
def test_it_says_how_the_chip_became_a_device_type(environment: dict[str, str], registration: str, words: str) -> None:
    depth = Depth(load_seconds=120.0, everything=True)
    environ = {**environment, "NORTHBRIDGE_SDAA_SIM_REGISTRATION": registration}
    with patch.dict(os.environ, environ, clear=True):
        (claim,) = choose("sdaa")
        report = report_on(claim, ask_child(question("sdaa", depth), depth.stages))

    assert report.device_type == words
    assert (report.states.status, report.states.devices, report.states.cards) == ("ready", 32, 8)


def test_a_wrong_variable_is_told_alone(environment: dict[str, str]) -> None:
    found: dict[str, Any] = json.loads(ask(TECO, environment, "--json", SDAA_VISIBLE_DEVICES="0,32").stdout)
    told = [each["what"] for each in found["advice"]]

    assert "SDAA_VISIBLE_DEVICES=0,32 names 2 core groups; torch.sdaa counts 1" in told[0]
    assert not any("upgrade the plugin" in each for each in told)
