"""The cards of this machine, looked at without taking one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

import northbridge
from northbridge_hpu.settings import HPUSettings

IDLE_BYTES = 2**30
"""More memory in use than this means that a process holds the card; an idle one shows about 768 MiB."""

DEVICE_FILE = re.compile(r"/(?:accel/accel|hl)(\d+)$")
"""What a process that holds a card has open; the number is taken for the card's index."""


@dataclass(frozen=True)
class Card:
    """One card: its index, which may change when the driver is loaded anew, and its module id, which tells its place.

    Memory is in bytes. ``utilization`` is in percent.
    """

    index: int
    module: int
    name: str
    used: int
    total: int
    utilization: int

    @property
    def is_held(self) -> bool:
        """Whether some process has taken the card."""
        return self.used > IDLE_BYTES


def can_be_asked() -> bool:
    """Whether the vendor's management library for Python, habana-pyhlml, is installed."""
    return find_spec("pyhlml") is not None


def cards() -> tuple[Card, ...]:
    """Return every card, by index. Raises :class:`northbridge.DetectionError` where the driver does not answer."""
    with _hlml() as hlml:
        return tuple(_card(hlml, index) for index in range(hlml.hlmlDeviceGetCount()))


def versions() -> dict[str, str]:
    """Return the versions of driver and management library."""
    with _hlml() as hlml:
        return {"driver": _text(hlml.hlmlGetDriverVersion()), "hlml": _text(hlml.hlmlGetHLMLVersion())}


def visible_modules() -> tuple[int, ...]:
    """Return the module ids that this run may use, in the order of ``devices=``.

    Module ids are a permutation of the indices, and another one on each kind of server: they are asked, never assumed.
    Raises :class:`northbridge.SettingsError` where HABANA_VISIBLE_MODULES names a module that is not here, and
    :class:`northbridge.SoftwareMissingError` where nobody can be asked.
    """
    chosen = HPUSettings.read().habana_visible_modules
    if not can_be_asked():
        if chosen is not None:
            return chosen
        raise northbridge.SoftwareMissingError(
            "which card has which module id has to be asked, and habana-pyhlml, which can be, is not installed: pip"
            " install habana-pyhlml, or set HABANA_VISIBLE_MODULES",
            backend="hpu",
        )
    present = [card.module for card in cards()]
    absent = sorted(set(chosen or ()) - set(present))
    if absent:
        raise northbridge.SettingsError(
            f"HABANA_VISIBLE_MODULES={','.join(map(str, chosen or ()))!r} names module"
            f" {', '.join(map(str, absent))}, and this machine has {', '.join(map(str, sorted(present))) or 'none'}",
            variable="HABANA_VISIBLE_MODULES",
        )
    return tuple(present) if chosen is None else chosen


@contextmanager
def _hlml() -> Iterator[ModuleType]:
    import pyhlml

    try:
        pyhlml.hlmlInit()
        try:
            yield pyhlml
        finally:
            pyhlml.hlmlShutdown()
    except pyhlml.HLMLError as error:
        raise northbridge.DetectionError(
            f"the driver of the HPU does not answer habana-pyhlml: {type(error).__name__}: {error}; is it loaded"
            " (lsmod), and of the release of the software?",
            backend="hpu",
        ) from error


def _card(hlml: ModuleType, index: int) -> Card:
    handle = hlml.hlmlDeviceGetHandleByIndex(index)
    memory = hlml.hlmlDeviceGetMemoryInfo(handle)
    return Card(
        index=index,
        module=int(hlml.hlmlDeviceGetModuleID(handle)),
        name=_text(hlml.hlmlDeviceGetName(handle)),
        used=int(memory.used),
        total=int(memory.total),
        utilization=int(hlml.hlmlDeviceGetUtilizationRates(handle).aip),
    )


def _text(answer: bytes | str) -> str:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer
