"""Planted differences are found at their place, and pairs of right runs have none, all on the simulated chip."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.core.snapshots import planted
from tests.core.snapshots.planted import CASES, RIGHT, Case
from tests.engines import needs_engines, with_engines
from tests.scripts import Ran, run_script

from northbridge_cpu_sim import ROUNDING_OPTIONS

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("with_science")]  # diffusers imports pillow

ROOT = Path(__file__).parents[3]
OF_ENGINES = ("bert", "unet")
GROUPS = {
    "rounding": {"NORTHBRIDGE_CPU_SIM_ORDER": "other"},
    "right": {name: text for name, text in ROUNDING_OPTIONS.items() if "PRODUCTS" not in name},
    "tf32": {"NORTHBRIDGE_CPU_SIM_PRODUCTS": "tf32"},
    "deferred": {"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"},
    "ranks": {},
}


@cache
def train(group: str) -> Ran:
    """Train the pairs of a group in one process, which prints the answer to each."""
    environ = with_engines({**os.environ, **GROUPS[group]})
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), environ.get("PYTHONPATH", "")])
    names = [*RIGHT] if group == "right" else [name for name, case in CASES.items() if case.group == group]
    with TemporaryDirectory() as folder:
        return run_script(Path(planted.__file__), *names, folder=Path(folder), environ=environ, limit=800)


def answer_to(name: str, group: str) -> dict[str, Any]:
    ran = train(group)
    answers = dict(json.loads(line) for line in ran.said.splitlines() if line.startswith('["'))
    assert name in answers, ran.said
    return dict(answers[name])


def of_engines(name: str, model: str) -> Any:
    return pytest.param(name, marks=[needs_engines] if model in OF_ENGINES else [])


@pytest.mark.parametrize("name", [of_engines(name, case.model) for name, case in CASES.items()])
def test_a_planted_difference_is_found(name: str) -> None:
    case: Case = CASES[name]

    answer = answer_to(name, case.group)

    assert answer["differs"], answer["sentence"]
    found = answer["step"], answer["path"], answer["cause"]
    assert found == (case.step, case.path, case.cause), answer["sentence"]
    assert f"step {case.step}, " in answer["sentence"]


@pytest.mark.parametrize("name", [of_engines(name, model) for name, (model, _) in RIGHT.items()])
def test_right_runs_do_not_differ(name: str) -> None:
    answer = answer_to(name, "right")

    assert answer["sentence"].startswith("no difference beyond rounding: "), answer["sentence"]
    assert answer["cause"] == "order of sums"


def test_there_are_enough_pairs() -> None:
    assert len(CASES) >= 20
    assert len(RIGHT) >= 10
