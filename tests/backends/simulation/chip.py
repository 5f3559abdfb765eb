"""The facts about a simulated chip that the shared tests need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from tests.backends.simulation.page import Page

from northbridge.contract import Contract, Symbol
from northbridge_cpu_sim import Record, Server

_SHARED = Path(__file__).with_name("scripts")


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
    """The page of the docs that shows the runs."""

    scripts: Path
    """The folder of the scripts that are this chip's own."""

    modes: Mapping[str, Mapping[str, str]]
    """The variables of each of its modes."""

    eight_ranks: str
    """The line of the log that tells on what eight ranks run."""

    places: tuple[str, ...]
    """The output of ``train.py`` for each of four ranks on two nodes."""

    ordered_streams: bool = False
    """True if work is done in the order of the calls, whatever their streams."""

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

    def script(self, name: str) -> Path:
        """Return a script of this chip's, or else of all chips."""
        own = self.scripts / name
        return own if own.exists() else _SHARED / name
