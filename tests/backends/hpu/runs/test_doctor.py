"""The doctor, asked about the simulated Gaudi."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.backends.hpu.runs.conftest import Start
from tests.backends.hpu.runs.page import assert_shown
from tests.core.command import command


def doctor(environment: dict[str, str], *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", command("doctor", "hpu", *options)],
        env={**environment, "COLUMNS": "100", "OMP_NUM_THREADS": "1", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_tells_which_device_is_which_card_and_which_module(environment: dict[str, str]) -> None:
    said = doctor(environment)

    assert said.returncode == 0, said.stderr
    assert_shown("NORTHBRIDGE_SIMULATE=hpu northbridge doctor hpu", said.stdout)


@pytest.mark.parametrize("lazy", ["0", "1"], ids=["eager", "lazy"])
def test_every_line_of_the_contract_holds_and_one_card_and_two_train(environment: dict[str, str], lazy: str) -> None:
    said = doctor(environment, "--acquire", "--train", "--json", PT_HPU_LAZY_MODE=lazy)

    found: dict[str, Any] = json.loads(said.stdout)
    (report,) = found["backends"]
    verdicts = {each["verdict"] for each in report["contract"]["findings"]}
    assert verdicts == {"holds", "unchecked"}, [
        each for each in report["contract"]["findings"] if each["verdict"] == "wrong"
    ]
    assert [(each["cards"], each["reason"], each["simulated"]) for each in found["trainings"]["hpu"]] == [
        (1, "", True),
        (2, "", True),
    ]
    assert found["advice"] == []
    assert said.returncode == 0


def test_a_card_that_is_held_is_told_with_who_holds_it(environment: dict[str, str], start: Start) -> None:
    holder = start("hold.py")
    holder.wait_for("holds module 0\n")

    said = doctor(environment, "--acquire", "--json", HABANA_VISIBLE_MODULES="0")

    found: dict[str, Any] = json.loads(said.stdout)
    (report,) = found["backends"]
    told = f"process {holder.process.pid} (python hold.py) holds it"
    assert told in report["acquire_problem"]
    assert report["machine"]["processes"] == {str(holder.process.pid): "holds card 6: python hold.py"}
    assert said.returncode == 1


@pytest.mark.parametrize("module", ["abc", "9"])
def test_a_wrong_choice_of_modules_is_told_and_blamed_on_nobody_else(environment: dict[str, str], module: str) -> None:
    said = doctor(environment, "--json", HABANA_VISIBLE_MODULES=module)

    found: dict[str, Any] = json.loads(said.stdout)
    told = [each["what"] for each in found["advice"] if each["level"] == "wrong"]
    assert told[0].startswith(f"HABANA_VISIBLE_MODULES={module!r} ")
    assert not any("upgrade the plugin" in each for each in told)
    assert said.returncode == 1


def test_with_nothing_installed_it_says_what_to_install(environment: dict[str, str]) -> None:
    bare = {name: text for name, text in environment.items() if name != "NORTHBRIDGE_SIMULATE"}

    said = doctor(bare)

    assert said.returncode == 3
    assert "software missing: hpu" in " ".join(said.stdout.split())
