"""Parsing of ``devices=``."""

from __future__ import annotations

from collections import Counter

from northbridge.errors import DevicesError, DevicesTypeError
from northbridge.untrusted.text import shorten

MOST_PROCESSES = 2**22
"""Linux numbers no more processes at a time: https://man7.org/linux/man-pages/man5/proc_sys_kernel.5.html (pid_max)."""


def parse_devices(devices: object, *, count: int, name: str) -> list[int]:
    """Return the device indices that ``devices`` asks for, with Lightning's meaning for each form.

    ``2`` and ``"2"`` are the first two; ``-1``, ``"-1"`` and ``"auto"`` are all of them; ``[0, 1]``, ``(0, 1)``,
    ``"0,1"`` and ``"1,"`` are those indices. ``count`` is the machine's number of devices, ``name`` the backend's name.
    Raises :class:`DevicesError`, and :class:`DevicesTypeError` for a value of another type.
    """
    asked = show_devices(devices)
    if isinstance(devices, str):
        devices = _read(devices, asked=asked, name=name)
    if isinstance(devices, bool) or not isinstance(devices, (int, list, tuple)):
        raise _nonsense(asked, name, DevicesTypeError)
    if isinstance(devices, int):
        return _first(devices, count=count, asked=asked, name=name)
    if any(isinstance(each, bool) or not isinstance(each, int) for each in devices):
        raise _nonsense(asked, name, DevicesTypeError)
    if not devices:
        raise _nonsense(asked, name)
    return _check_indices(list(devices), count=count, asked=asked, name=name)


def show_devices(devices: object) -> str:
    """Return ``devices=`` with its value, shortened, for a message."""
    return f"devices={_write(devices)}"


def _write(value: object) -> str:
    try:
        return shorten(repr(value))
    except ValueError:  # Python writes no number of more than 4300 digits
        return "…"


def names_indices(asked: object) -> bool:
    """Return True if ``devices=`` names indices, and not a number of devices."""
    return isinstance(asked, (list, tuple)) or (isinstance(asked, str) and "," in asked)


def reject_more_than_processes(devices: object) -> None:
    """Raise :class:`DevicesError` if ``devices=`` of Lightning's CPU accelerator exceeds the number of processes.

    The accelerator makes a device for each process, before anything else is checked.
    """
    number = int(devices.strip()[:20]) if isinstance(devices, str) and devices.strip().isdecimal() else devices
    if isinstance(number, int) and number > MOST_PROCESSES:
        raise DevicesError(
            f"{show_devices(devices)}: each CPU device is a process, and a machine has at most {MOST_PROCESSES}. Fix:"
            " ask for fewer"
        )


def _read(text: str, *, asked: str, name: str) -> int | list[int]:
    if text.strip() == "auto":
        return -1
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        return int(text)
    except ValueError:
        raise _nonsense(asked, name) from None


def _first(number: int, *, count: int, asked: str, name: str) -> list[int]:
    if number == -1:
        return list(range(count))
    if number < 1:
        raise _nonsense(asked, name)
    if number > count:
        raise DevicesError(
            f"{asked} asks for {_write(number)} devices of {name!r}, but this machine has {_tell(count)}. Fix: ask for"
            " fewer"
        )
    return list(range(number))


def _check_indices(indices: list[int], *, count: int, asked: str, name: str) -> list[int]:
    twice = sorted(index for index, times in Counter(indices).items() if times > 1)
    if twice:
        raise DevicesError(f"{asked} repeats device {_write(twice).strip('[]')} of {name!r}")
    absent = [index for index in indices if not 0 <= index < count]
    if absent:
        raise DevicesError(
            f"{asked} names device {_write(absent).strip('[]')} of {name!r}, but this machine has {_tell(count)}"
        )
    return indices


def _tell(count: int) -> str:
    return f"{count} (0 to {count - 1})" if count > 1 else f"{count} (index 0)" if count else "none"


def _nonsense(asked: str, name: str, kind: type[DevicesError] = DevicesError) -> DevicesError:
    return kind(
        f"{asked} is not a choice of devices of {name!r}. Fix: a number of devices (2), their indices ([0, 1] or"
        " '0,1'), or 'auto' or -1 for all"
    )
