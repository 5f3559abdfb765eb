"""The cards of this machine, examined without acquiring one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

import northbridge
from northbridge_hpu.settings import HPUSettings

IDLE_BYTES = 2**30
"""A card with more memory in use than this is held by a process; an idle one shows about 768 MiB."""

DEVICE_FILE = re.compile(r"^/dev/(?:accel/accel|hl)(\d+)$")
"""Device file that a process holding a card has open; its number is used as the card's index."""


@dataclass(frozen=True)
class Card:
    """One card: its index, which may change when the driver is reloaded, and its module id, which names its place.

    Memory is in bytes. ``utilization`` is in percent. None means that the card did not report the value.
    """

    index: int
    module: int
    name: str | None
    used: int | None
    total: int | None
    utilization: int | None

    @property
    def is_held(self) -> bool:
        """True if a process has acquired the card."""
        return self.used is not None and self.used > IDLE_BYTES


def can_be_asked() -> bool:
    """Return True if the vendor's management library for Python, habana-pyhlml, is installed."""
    return find_spec("pyhlml") is not None


def cards() -> tuple[Card, ...]:
    """Return every card, by index. Raises :class:`northbridge.DetectionError` if the driver does not answer."""
    with _hlml() as hlml:
        return tuple(_card(hlml, index) for index in range(hlml.hlmlDeviceGetCount()))


def modules() -> tuple[int, ...]:
    """Return the module id of every card, sorted; every detection asks. Raises as :func:`cards` does."""
    with _hlml() as hlml:
        handles = map(hlml.hlmlDeviceGetHandleByIndex, range(hlml.hlmlDeviceGetCount()))
        return tuple(sorted(int(hlml.hlmlDeviceGetModuleID(handle)) for handle in handles))


def versions() -> dict[str, str]:
    """Return the versions of the driver and the management library."""
    with _hlml() as hlml:
        return {"driver": _text(hlml.hlmlGetDriverVersion()), "hlml": _text(hlml.hlmlGetHLMLVersion())}


def visible_modules() -> tuple[int, ...]:
    """Return the module ids that this run may use, in the order of ``devices=``; all of them if none are chosen.

    They are a permutation of the indices, which differs between servers. Ranks of two nodes communicate module to
    module. Raises :class:`northbridge.SettingsError` if HABANA_VISIBLE_MODULES names a module that this machine lacks,
    and :class:`northbridge.SoftwareMissingError` if the module ids cannot be found.
    """
    chosen = HPUSettings.read().habana_visible_modules
    if not can_be_asked():
        if chosen is not None:
            return chosen
        raise northbridge.SoftwareMissingError(
            "the cards' module ids are unknown. Fix: pip install habana-pyhlml, or set HABANA_VISIBLE_MODULES",
            backend="hpu",
        )
    present = modules()
    absent = sorted(set(chosen or ()) - set(present))
    if absent:
        asked, wrong = ",".join(map(str, chosen or ())), ", ".join(map(str, absent))
        found = ", ".join(map(str, present)) or "none"
        raise northbridge.SettingsError(
            f"HABANA_VISIBLE_MODULES={asked!r} names {wrong}; found {found}",
            variable="HABANA_VISIBLE_MODULES",
        )
    return present if chosen is None else chosen


@contextmanager
def _hlml() -> Iterator[ModuleType]:
    import pyhlml

    try:
        with ExitStack() as opened:
            with suppress(pyhlml.HLMLError_AlreadyInitialized):  # by the script, which goes on using it
                pyhlml.hlmlInit()
                opened.callback(pyhlml.hlmlShutdown)
            yield pyhlml
    except pyhlml.HLMLError as error:
        raise northbridge.DetectionError(
            f"the HPU's driver does not answer: {type(error).__name__}: {error}. Fix: check lsmod and its release",
            backend="hpu",
        ) from error


def _card(hlml: ModuleType, index: int) -> Card:
    handle = hlml.hlmlDeviceGetHandleByIndex(index)
    name = memory = rates = None  # a faulty card must not block the other cards
    with suppress(hlml.HLMLError):
        name = _text(hlml.hlmlDeviceGetName(handle))
        memory = hlml.hlmlDeviceGetMemoryInfo(handle)
        rates = hlml.hlmlDeviceGetUtilizationRates(handle)
    return Card(
        index=index,
        module=int(hlml.hlmlDeviceGetModuleID(handle)),
        name=name,
        used=memory and int(memory.used),
        total=memory and int(memory.total),
        utilization=rates and int(rates.aip),
    )


def _text(answer: bytes | str) -> str:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer
