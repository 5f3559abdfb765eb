"""The doctor, asked about the simulated Teco cards."""

from __future__ import annotations

import json
import os
from typing import Any
from unittest.mock import patch

import pytest
from tests.backends.sdaa.teco import TECO
from tests.backends.simulation.runs.doctor import ask

from northbridge.diagnostics.backends import BackendReport, report_on
from northbridge.diagnostics.examination import Depth, question
from northbridge.diagnostics.report import choose
from northbridge.processes.child import ask as ask_child


def report(environment: dict[str, str], **environ: str) -> BackendReport:
    """Return what the doctor finds out about the cards, by the child that it asks about them and no other."""
    depth = Depth(load_seconds=120.0, everything=True)
    with patch.dict(os.environ, {**environment, **environ}, clear=True):
        (claim,) = choose("sdaa")
        return report_on(claim, ask_child(question("sdaa", depth), depth.stages))


@pytest.mark.parametrize(
    ("registration", "words"),
    [
        ("renamed", "torch's spare device type, PrivateUse1, renamed to 'sdaa'"),
        ("patched", "a device type of its own, 'sdaa', in this torch"),
    ],
)
def test_it_says_how_the_chip_became_a_device_type(environment: dict[str, str], registration: str, words: str) -> None:
    assert report(environment, NORTHBRIDGE_SDAA_SIM_REGISTRATION=registration).device_type == words


@pytest.mark.parametrize(
    ("environ", "devices", "cards"),
    [
        ({}, 32, 8),
        ({"NORTHBRIDGE_SDAA_SIM_SMI": "1.10"}, 32, 8),
        ({"NORTHBRIDGE_SDAA_SIM_SMI": "none"}, 32, None),
        ({"NORTHBRIDGE_SDAA_SIM_GROUPS": "3", "NORTHBRIDGE_CPU_SIM_DEVICES": "12"}, 12, 4),
        ({"SDAA_VISIBLE_DEVICES": "3,4", "NORTHBRIDGE_SDAA_SIM_SMI": "1.10"}, 2, 2),
        ({"SDAA_VISIBLE_DEVICES": "3,4"}, 2, None),
    ],
    ids=["rows are cards", "rows are core groups", "no teco-smi", "three to a card", "two of two cards", "two of some"],
)
def test_devices_are_told_with_the_cards_that_they_lie_on(
    environment: dict[str, str], environ: dict[str, str], devices: int, cards: int | None
) -> None:
    states = report(environment, **environ).states

    assert (states.status, states.devices, states.cards) == ("ready", devices, cards)


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        (
            "TORCH_SDAA_ALIGN_NV_DEVICE",
            "off",
            "TORCH_SDAA_ALIGN_NV_DEVICE='off' is not a100 or v100 ",
        ),
        ("TORCH_SDAA_AUTOLOAD", "cuda_migrate", "TORCH_SDAA_AUTOLOAD=cuda_migrate fakes CUDA"),
        ("SDAA_VISIBLE_DEVICES", "0,0", "SDAA_VISIBLE_DEVICES='0,0' is not a list of devices"),
        ("SDAA_VISIBLE_DEVICES", "0,32", "SDAA_VISIBLE_DEVICES=0,32 names 2 core groups; torch.sdaa counts 1"),
    ],
)
def test_a_wrong_variable_is_told_alone(environment: dict[str, str], variable: str, text: str, words: str) -> None:
    found: dict[str, Any] = json.loads(ask(TECO, environment, "--json", **{variable: text}).stdout)
    told = [each["what"] for each in found["advice"]]

    assert words in told[0]
    assert not any("upgrade the plugin" in each for each in told)
