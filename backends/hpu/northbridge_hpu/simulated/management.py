"""The management library ``pyhlml``: facts about the cards, without acquiring one."""

from __future__ import annotations

from dataclasses import dataclass

from northbridge_hpu.simulated.machine import DRIVER, RECORD, card, device_count, generation, module_ids, server

_IDLE_BYTES = 768 * 2**20
"""Memory that an idle card shows as used."""

_LIBRARY = b"hl-1.22.0-simulated"

_is_open = False


class HLMLError(Exception):
    """Error of every failing call; ``value`` is the library's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"{_MEANINGS[value]} ({value})")
        self.value = value


_UNINITIALIZED, _INVALID, _ALREADY_INITIALIZED = 1, 2, 5
_MEANINGS = {
    _UNINITIALIZED: "uninitialized",
    _INVALID: "invalid argument",
    _ALREADY_INITIALIZED: "already initialized",
}


class HLMLError_AlreadyInitialized(HLMLError):
    """Error of :func:`hlmlInit` in a process that has called it before."""


@dataclass(frozen=True)
class _Handle:
    card: int


@dataclass(frozen=True)
class _Memory:
    free: int
    total: int
    used: int


@dataclass(frozen=True)
class _Utilization:
    aip: int
    memory: int


def hlmlInit() -> None:
    """Open the library, which every other call needs. Raises an error if it is open already."""
    global _is_open
    if _is_open:
        raise HLMLError_AlreadyInitialized(_ALREADY_INITIALIZED)
    _is_open = True


def hlmlShutdown() -> None:
    """Close the library."""
    global _is_open
    _check_open()
    _is_open = False


def hlmlDeviceGetCount() -> int:
    """Count the cards of the server."""
    _check_open()
    return device_count()


def hlmlDeviceGetHandleByIndex(index: int, /) -> _Handle:
    """Return a card's handle for the calls below. Raises :class:`HLMLError` for an index that does not exist."""
    if not 0 <= index < hlmlDeviceGetCount():
        raise HLMLError(_INVALID)
    return _Handle(index)


def hlmlDeviceGetModuleID(device: _Handle, /) -> int:
    """Return the module id of a card."""
    _check_open()
    return module_ids()[device.card]


def hlmlDeviceGetName(device: _Handle, /) -> bytes:  # noqa: ARG001
    """Return the product name of a card, as bytes."""
    _check_open()
    return generation().product.encode()


def hlmlDeviceGetMemoryInfo(device: _Handle, /) -> _Memory:
    """Return a card's memory in bytes; all of it is used as soon as a process holds the card."""
    _check_open()
    total = card().memory
    used = total if server().holder(device.card) is not None else min(_IDLE_BYTES, total)
    return _Memory(free=total - used, total=total, used=used)


def hlmlDeviceGetUtilizationRates(device: _Handle, /) -> _Utilization:
    """Return a card's load in percent; the engines' is 0, because no work remains between two calls."""
    memory = hlmlDeviceGetMemoryInfo(device)
    return _Utilization(aip=0, memory=100 * memory.used // memory.total)


def hlmlGetHLMLVersion() -> bytes:
    """Return the library's version, as bytes."""
    _check_open()
    return _LIBRARY


def hlmlGetDriverVersion() -> bytes:
    """Return the driver's version, as bytes."""
    _check_open()
    return DRIVER.encode()


def _check_open() -> None:
    if not _is_open:
        raise HLMLError(_UNINITIALIZED)


# Read on https://pypi.org/project/habana-pyhlml/
STAND_INS = RECORD.watched(
    {"pyhlml": {name: value for name, value in globals().items() if name.startswith(("hlml", "HLML"))}}
)
