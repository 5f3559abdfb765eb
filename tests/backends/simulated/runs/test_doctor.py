"""The doctor, asked about a simulated chip, and the page of the simulation, which shows what is tested."""

from __future__ import annotations

import json
from typing import Any

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.runs.doctor import ask


class TestTheDoctor:
    """Its output if nothing is wrong, and if the vendor's software is missing."""

    def test_the_page_tells_which_device_is_which_card(self, sim: SimChip, environment: dict[str, str]) -> None:
        said = ask(sim, environment)

        assert said.returncode == 0, said.stderr
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} northbridge doctor {sim.name}", said.stdout)

    def test_contract_holds_and_one_and_two_cards_train(
        self, sim: SimChip, environment: dict[str, str], mode: dict[str, str]
    ) -> None:
        said = ask(sim, environment, "--acquire", "--train", "--json", **mode)

        found: dict[str, Any] = json.loads(said.stdout)
        (report,) = found["backends"]
        verdicts = {each["verdict"] for each in report["contract"]["findings"]}
        assert verdicts == {"holds", "unchecked"}, [
            each for each in report["contract"]["findings"] if each["verdict"] == "wrong"
        ]
        assert [(each["cards"], each["reason"], each["simulated"]) for each in found["trainings"][sim.name]] == [
            (1, "", True),
            (2, "", True),
        ]
        assert found["advice"] == []
        assert said.returncode == 0

    def test_with_nothing_installed_it_says_what_to_install(self, sim: SimChip, environment: dict[str, str]) -> None:
        bare = {name: text for name, text in environment.items() if name != "NORTHBRIDGE_SIMULATE"}

        said = ask(sim, bare)

        assert said.returncode == 3
        assert f"software missing: {sim.name}" in " ".join(said.stdout.split())


class TestShown:
    """The page keeps to the scripts."""

    def test_a_script_on_the_page_is_the_one_that_runs(self, sim: SimChip, titled_script: str) -> None:
        assert sim.page.scripts[titled_script] == sim.script(titled_script).read_text()

    def test_a_command_on_the_page_is_one_of_a_script_that_is_shown(self, sim: SimChip, script_command: str) -> None:
        assert script_command.partition(" python ")[2].split()[0] in sim.page.scripts
