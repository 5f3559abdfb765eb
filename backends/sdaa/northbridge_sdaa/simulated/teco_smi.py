"""The vendor's command: a table of the cards, or of the core groups for releases before 1.15."""

from __future__ import annotations

from collections.abc import Iterator

from northbridge_sdaa.simulated import machine
from northbridge_sdaa.simulated.machine import SDAASimSettings

_LINE = "|-------------------------------+----------------------+----------------------|"
_END = "+-----------------------------------------------------------------------------+"
_CARD_MB = 65536
_GROUP_MB = 15296


def lines() -> Iterator[str]:
    """Yield the lines of the table."""
    by_card = SDAASimSettings.read().smi == "1.15"
    rows = range(machine.card_count() if by_card else machine.core_group().count)
    yield _END
    tool = "TECO-SMI: 1.15.0" if by_card else "TCML: 1.10.0"
    yield f"|  {tool}    SDAADriver: 3.3.0-simulated    SDAARuntime: 3.3.0".ljust(78) + "|"
    yield _LINE
    yield "| Index  Name                   | Bus-Id               | Health      SPE-Util |"
    yield "|        Temp          Pwr Usage|          Memory-Usage|                      |"
    yield "|" + "=" * 77 + "|"
    for row in rows:
        bus = f"00000000:{16 + (row if by_card else machine.card_of(row)):02X}:00.0"
        total = f"0MB / {_CARD_MB if by_card else _GROUP_MB}MB"
        yield f"|{row:4}    {machine.CARD:<23}| {bus:<21}| OK                0% |"
        yield f"|        35C                90W |{total:>21} |                      |"
        yield _LINE
    yield _END
    yield "| Processes:".ljust(78) + "|"
    yield "| No Process Running".ljust(78) + "|"
    yield _END


if __name__ == "__main__":
    print("\n".join(lines()))
