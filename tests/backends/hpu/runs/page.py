"""What docs/simulated-gaudi.md shows of the runs."""

from __future__ import annotations

import re

from tests.docs.page import samples, shows

PAGE = "docs/simulated-gaudi.md"

SHOWN = {
    command: output
    for sample in samples(PAGE, "console")
    for command, output in re.findall(r"^[\w-]*\$ (.+)\n((?:(?![\w-]*\$ ).*\n)*)", sample.code, flags=re.M)
}
"""What stands below each command on the page."""


def assert_shown(command: str, said: str) -> None:
    """Assert that the page shows ``command`` to print what it has printed here."""
    assert shows(said, SHOWN[command]), f"the page shows:\n{SHOWN[command]}\nbut here it printed:\n{said}"
