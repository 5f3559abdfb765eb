"""docs/simulated-gaudi.md shows the scripts and the runs that are tested here, and no others."""

from __future__ import annotations

import re

import pytest
from tests.backends.hpu.runs.jobs import SCRIPTS
from tests.backends.hpu.runs.page import PAGE, SHOWN
from tests.docs.page import PAGES

# Kind "py", and not "python": those samples are run by tests/docs, in one process.
TITLED = dict(re.findall(r'^```py title="([^"\n]+)"\n(.*?)^```$', PAGES[PAGE].read_text(), flags=re.M | re.S))


@pytest.mark.parametrize("name", TITLED)
def test_a_script_on_the_page_is_the_one_that_runs(name: str) -> None:
    assert TITLED[name] == (SCRIPTS / name).read_text()


@pytest.mark.parametrize("command", [command for command in SHOWN if " python " in command])
def test_a_command_on_the_page_is_one_of_a_script_that_is_shown(command: str) -> None:
    assert command.partition(" python ")[2].split()[0] in TITLED
