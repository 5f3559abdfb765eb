"""The facts about a simulated chip that the shared tests need, and the page of the docs that shows its runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from tests.docs.page import PAGES, samples, shows

from northbridge.contract import Contract, Symbol
from northbridge_cpu_sim import Record, Server


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
        """The scripts on the page, by their titles: what is shown is what runs."""
        # Kind "py", and not "python": those samples are run by tests/docs, in one process.
        found = re.findall(r'^```py title="([^"\n]+)"\n(.*?)^```$', PAGES[self.path].read_text(), flags=re.M | re.S)
        return dict(found)

    def assert_shown(self, command: str, said: str) -> None:
        """Assert that the page shows ``command`` to print what it has printed here."""
        shown = self.shown[command]
        assert shows(said, shown), f"the page shows:\n{shown}\nbut here it printed:\n{said}"


@dataclass(frozen=True)
class SimChip:
    """A backend, and the stand-ins for its vendor's software."""

    name: str
    package: ModuleType
    """The backend's, beside whose modules ``contract.toml`` lies."""

    record: Record
    """The record of the stand-ins."""

    imports: str
    """The lines by which a user's script begins."""

    collective: str
    """The name of the vendor's library for ``init_process_group``."""

    variables: tuple[str, ...]
    """The prefix of the vendor's variables, without the underscore."""

    page: Page
    """The page that shows the runs."""

    modes: Mapping[str, Mapping[str, str]]
    """The variables of each of its modes."""

    eight_ranks: str = ""
    """The line of the log that tells on what eight ranks run."""

    places: tuple[str, ...] = tuple(f"rank {rank}: node {rank // 2}, device {rank % 2}" for rank in range(4))
    """The output of ``train.py`` for each of four ranks on two nodes."""

    cards: int = 8
    server: Callable[[], Server] | None = None
    """Returns the server of a process, which knows it from the first call on; None where processes share cards."""

    nodes: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    """The chip's own variables on each of two nodes."""

    @property
    def folder(self) -> Path:
        """Where the code of the backend is."""
        return Path(str(self.package.__file__)).parent

    @cached_property
    def contract(self) -> Contract:
        """The contract of the backend."""
        return Contract.read(self.folder / "contract.toml", backend=self.name)

    @cached_property
    def lines(self) -> dict[str, Symbol]:
        """The lines of the contract, by their names."""
        return {symbol.name: symbol for symbol in self.contract.symbols}

    @cached_property
    def offered(self) -> list[Symbol]:
        """The lines of the contract that a stand-in offers."""
        return [each for each in self.contract.symbols if each.kind not in ("environment", "behaviour", "absent")]

    def on_server(self, folder: Path) -> dict[str, str]:
        """Return what the environment says to a process that stands on the server in ``folder``."""
        return {f"NORTHBRIDGE_{self.name.upper()}_SIM_SERVER": str(folder)} if self.server else {}
