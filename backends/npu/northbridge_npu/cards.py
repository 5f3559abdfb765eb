"""The cards of this machine, as the vendor's ``npu-smi info`` shows them, without touching an NPU."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

import northbridge
from northbridge_npu.settings import NPUSettings

_LINES = {
    "version": re.compile(r"^\|\s*npu-smi\s+(\S+)"),
    "process": re.compile(r"^\|\s*(\d+)\s+(\d+)\s*\|\s*(\d+)\s*\|\s*(\S.*?)\s*\|\s*(\d+)\s*\|"),
    "card": re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*([A-Za-z]+)\s*\|"),
    "chip": re.compile(r"^\|\s*(\d+)(?:\s+\d+)?\s*\|\s*([0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+)\s*\|.*?(\d+\s*/\s*\d+)\s*\|$"),
}
_WITHOUT_BFLOAT16 = re.compile(r"(Ascend)?(310P\d?|910A|910B|910Pro[AB]|910PremiumA)")
"""Names of cards before the 910B1, whose ``IsBF16Supported`` is false: ``contract.toml`` has the source."""


@dataclass(frozen=True)
class Chip:
    """Two lines of the table: one NPU as torch counts them. A card has one or two."""

    card: int
    chip: int
    name: str
    health: str
    bus: str
    memory_mb: str
    """Used and all; HBM on cards that have it."""


@dataclass(frozen=True)
class Table:
    """Parsed output of ``npu-smi info``."""

    version: str | None
    chips: tuple[Chip, ...]
    processes: tuple[str, ...]

    @classmethod
    def read(cls) -> Table | None:
        """Run the tool and parse its table; None if it is not installed. Raises :class:`northbridge.DetectionError`."""
        text = northbridge.run_tool("npu-smi", "info", backend="npu")
        return None if text is None else cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Table:
        """Parse ``text``; ignore lines of an unknown form."""
        version: str | None = None
        chips: list[Chip] = []
        processes: list[str] = []
        card: re.Match[str] | None = None
        for line in map(str.strip, text.splitlines()):
            if found := _LINES["version"].match(line):
                version = found[1]
            elif found := _LINES["process"].match(line):
                processes.append(f"{found[3]}: NPU {found[1]} chip {found[2]}, {found[4]}, {found[5]} MB")
            elif card and (found := _LINES["chip"].match(line)):
                memory = re.sub(r"\s", "", found[3])
                chips.append(Chip(int(card[1]), int(found[1]), card[2], card[3], found[2], memory))
                card = None
            else:
                card = _LINES["card"].match(line)
        return cls(version, tuple(chips), tuple(processes))

    def visible(self) -> tuple[Chip, ...]:
        """Return the chips of this process's devices, in torch's order."""
        chosen = NPUSettings.read().ascend_rt_visible_devices
        if chosen is None:
            return self.chips
        return tuple(self.chips[each] for each in chosen if each < len(self.chips))

    def without_bfloat16(self) -> str | None:
        """Return the name of a chip of this process that has no bfloat16; None if all have it."""
        return next((each.name for each in self.visible() if _WITHOUT_BFLOAT16.fullmatch(each.name)), None)


@cache
def standing() -> Table | None:
    """Return the first table that was read in this process: its names and places do not change.

    Raises :class:`northbridge.DetectionError`, and asks again at the next call.
    """
    return Table.read()


def count_cards(devices: Collection[int], total: int) -> int | None:
    """Count the cards behind ``devices`` of this process's ``total``; None if the table does not show it."""
    table = standing()
    chips = table.visible() if table else ()
    return len({chips[device].card for device in devices}) if chips and len(chips) == total else None
