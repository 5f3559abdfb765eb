"""The page of a simulation shows the scripts and the runs that are tested, and no others."""

from __future__ import annotations

from tests.backends.simulation.chip import SimChip


class TestShown:
    """The page keeps to the scripts."""

    def test_a_script_on_the_page_is_the_one_that_runs(self, sim: SimChip, titled_script: str) -> None:
        assert sim.page.scripts[titled_script] == sim.script(titled_script).read_text()

    def test_a_command_on_the_page_is_one_of_a_script_that_is_shown(self, sim: SimChip, script_command: str) -> None:
        assert script_command.partition(" python ")[2].split()[0] in sim.page.scripts
