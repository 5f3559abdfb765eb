"""The vendor's command ``npu-smi info``: a table of the NPUs."""

from __future__ import annotations

from collections.abc import Iterator

from northbridge_npu.simulated import machine
from northbridge_npu.simulated.machine import NPUSimSettings

_LINE = "+---------------------------+---------------+----------------------------------------------------+"
_DOUBLE = _LINE.replace("-", "=")


def lines() -> Iterator[str]:
    """Yield the lines of the table."""
    chips, name = machine.chips_of_a_card(), NPUSimSettings.read().card
    yield _LINE
    yield f"| npu-smi {'24.1.0':<25}Version: {'24.1.0':<51}|"
    yield _LINE
    yield "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|"
    yield "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |"
    for index in range(machine.npu().count):
        card, chip = divmod(index, chips)
        place = f"{chip}     {index}" if chips > 1 else f"{chip}"
        yield _DOUBLE
        yield f"| {card:<6}{name:<20}| {'OK':<14}| 90.0        35                0    / 0             |"
        bus = f"0000:{16 + index:02X}:00.0"
        yield f"| {place:<26}| {bus:<14}| 0           0    / 0          3380 / 65536         |"
    yield _DOUBLE
    yield "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |"
    for card in range(0, machine.npu().count, chips):
        yield f"| {f'No running processes found in NPU {card // chips}':<95}|"
    yield _LINE


if __name__ == "__main__":
    print("\n".join(lines()))
