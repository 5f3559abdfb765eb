"""The doctor, asked about the simulated Gaudi."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.runs.doctor import ask
from tests.backends.simulation.runs.fixtures import Start


def test_a_card_that_is_held_is_told_with_who_holds_it(environment: dict[str, str], start: Start) -> None:
    holder = start("hold.py", afresh=True)  # it is told by its command line
    holder.wait_for("holds module 0\n")

    said = ask(GAUDI, environment, "--acquire", "--json", HABANA_VISIBLE_MODULES="0")

    found: dict[str, Any] = json.loads(said.stdout)
    (report,) = found["backends"]
    told = f"process {holder.process.pid} (python hold.py) holds it"
    assert told in report["acquire_problem"]
    assert report["machine"]["processes"] == {str(holder.process.pid): "holds card 6: python hold.py"}
    assert said.returncode == 1


@pytest.mark.parametrize("module", ["abc", "9"])
def test_wrong_choice_of_modules_is_told(environment: dict[str, str], module: str) -> None:
    said = ask(GAUDI, environment, "--json", HABANA_VISIBLE_MODULES=module)

    found: dict[str, Any] = json.loads(said.stdout)
    told = [each["what"] for each in found["advice"] if each["level"] == "wrong"]
    assert told[0].startswith(f"HABANA_VISIBLE_MODULES={module!r} ")
    assert not any("upgrade the plugin" in each for each in told)
    assert said.returncode == 1
