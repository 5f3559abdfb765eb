"""The cards of this machine, as the vendor's ``teco-smi`` shows them, without touching a device."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import zip_longest

import northbridge
from northbridge_sdaa.settings import SDAASettings

_VERSION = re.compile(r"\b(TECO-SMI|TCML|SDAADriver|SDAARuntime):\s*([^\s|]+)")
_FIRST_LINE = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*([0-9A-Fa-f]+:[0-9A-Fa-f:.]+)\s*\|\s*(\w+)")
_MEMORY = re.compile(r"(\d+\s*[KMGT]?i?B\s*/\s*\d+\s*[KMGT]?i?B)\s*\|")
_PROCESS = re.compile(r"^\|\s*(\d+)\s+(\d+)\s+(\S.*?)\s+(\d+\s*[KMGT]?i?B)\s*\|$")


@dataclass(frozen=True)
class Row:
    """One row of the table: a card on newer releases of the tool, a core group on older ones."""

    index: int
    name: str
    bus: str
    health: str
    memory: str | None


@dataclass(frozen=True)
class Table:
    """Parsed output of ``teco-smi``. Process numbers are the host's, not a container's."""

    versions: dict[str, str]
    rows: tuple[Row, ...]
    processes: tuple[str, ...]

    @classmethod
    def read(cls) -> Table | None:
        """Run the tool and parse its table; None if it is not installed. Raises :class:`northbridge.DetectionError`."""
        text = northbridge.run_tool("teco-smi", backend="sdaa")
        return None if text is None else cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Table:
        """Parse ``text``; ignore lines of an unknown form."""
        rows: list[Row] = []
        processes: list[str] = []
        lines = text.splitlines()
        for line, below in zip_longest(lines, lines[1:], fillvalue=""):
            if first := _FIRST_LINE.match(line):
                memory = _MEMORY.search(below)
                rows.append(Row(int(first[1]), first[2], first[3], first[4], memory and memory[1]))
            elif process := _PROCESS.match(line):
                processes.append(f"{process[2]}: row {process[1]}, {process[3]}, {process[4]}")
        return cls(dict(_VERSION.findall(text)), tuple(rows), tuple(processes))

    @cached_property
    def buses(self) -> set[str]:
        """The cards: core groups of one card share its place on the bus."""
        return {row.bus for row in self.rows}

    def count_cards(self, devices: Collection[int], total: int) -> int | None:
        """Count the cards behind ``devices`` of this process's ``total``; None if the table does not show it."""
        chosen = SDAASettings.read().sdaa_visible_devices
        if len(self.buses) < len(self.rows):  # a row is a core group
            bus = {row.index: row.bus for row in self.rows}
            on = {bus.get(chosen[device] if chosen else device) for device in devices}
            return None if None in on else len(on)
        if chosen or not self.rows or total % len(self.rows):
            return None
        groups = total // len(self.rows)  # four on most cards, three on some
        return len({device // groups for device in devices})


@cache
def standing() -> Table | None:
    """Return the first table that was read in this process: its names and places do not change.

    Health and users of a card change; :meth:`Table.read` shows them, and starts a process each time. Raises
    :class:`northbridge.DetectionError`, and asks again at the next call.
    """
    return Table.read()
