"""The doctor, asked about a simulated chip."""

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
