"""The runs of a simulation, as a page of the docs shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tests.docs.page import PAGES, samples, shows


@dataclass(frozen=True)
class Page:
    """A page, by its path in the repository."""

    path: str

    @cached_property
    def shown(self) -> dict[str, str]:
        """The output below each command on the page."""
        return {
            command: output
            for sample in samples(self.path, "console")
            for command, output in re.findall(r"^[\w-]*\$ (.+)\n((?:(?![\w-]*\$ ).*\n)*)", sample.code, flags=re.M)
        }

    @cached_property
    def scripts(self) -> dict[str, str]:
        """The scripts on the page, by their titles."""
        # Kind "py", and not "python": those samples are run by tests/docs, in one process.
        found = re.findall(r'^```py title="([^"\n]+)"\n(.*?)^```$', PAGES[self.path].read_text(), flags=re.M | re.S)
        return dict(found)

    def assert_shown(self, command: str, said: str) -> None:
        """Assert that the page shows ``command`` to print what it has printed here."""
        shown = self.shown[command]
        assert shows(said, shown), f"the page shows:\n{shown}\nbut here it printed:\n{said}"
