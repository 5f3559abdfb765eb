"""Choice of ``accelerator="auto"``."""

from __future__ import annotations

from collections.abc import Callable

from northbridge.discovery.installed import LIGHTNING_NAMES, find, names, reject_unknown_disabled
from northbridge.discovery.present import candidate
from northbridge.errors import AmbiguousAcceleratorError, DetectionError, NorthbridgeError
from northbridge.lightning.accelerators.accelerator import load_with_hardware
from northbridge.process_record import note
from northbridge.settings import CoreSettings


def choose_auto(lightnings_choice: Callable[[], str]) -> str:
    """Choose the accelerator for ``auto``, load it if it is ours, and record the reason.

    A simulated chip that ``NORTHBRIDGE_SIMULATE`` names comes first. Then Lightning's own choice, unless that is the
    CPU. Then the only backend whose real hardware is present; several are an :class:`AmbiguousAcceleratorError`.
    Without one, a backend that took too long to count its devices is a :class:`DetectionError`: it may have hardware.
    """
    settings = CoreSettings.read()
    reject_unknown_disabled()
    if settings.simulate is not None:
        return _choose(settings.simulate, "NORTHBRIDGE_SIMULATE names it")
    choice = lightnings_choice()
    if choice in names() and choice not in LIGHTNING_NAMES and not settings.disables(choice):
        return _choose(choice, "Lightning found its hardware")  # up to 2.5.5, by a package that the backend replaces
    if choice != "cpu":
        note("auto", f"chose {choice}", "Lightning found its hardware")
        return choice
    present, slow = _backends_with_hardware()
    if slow is not None and not present:
        raise slow
    if len(present) > 1:
        found, one = " and ".join(present), present[0]
        raise AmbiguousAcceleratorError(f"accelerator='auto' found {found}. Fix: accelerator={one!r}")
    if present:
        return _choose(present[0], "its hardware is present, and no other accelerator's")
    note("auto", "chose cpu", "no accelerator's hardware is present")
    return choice


def _choose(name: str, reason: str) -> str:
    load_with_hardware(name)
    note("auto", f"chose {name}", reason)
    return name


def _backends_with_hardware() -> tuple[list[str], DetectionError | None]:
    """Return the backends that ``auto`` may choose, and the error of one that took too long to count its devices.

    Records why it passes over each other backend.
    """
    present, slow = [], None
    for name in names():
        try:
            reason = _reason_against(name)
        except NorthbridgeError as error:
            reason = str(error)
            if isinstance(error, DetectionError) and error.timed_out:
                slow = error
        if reason is None:
            present.append(name)
        else:
            note("auto", f"passed over {name}", reason)
    return present, slow


def _reason_against(name: str) -> str | None:
    find(name)  # two plugins with one name, or a disabled name, are errors before detection
    found = candidate(name)
    if found.get("simulated"):
        return f"it is simulated; NORTHBRIDGE_SIMULATE={name} would choose it"
    if not found.get("auto", True):
        return "it asks not to be chosen by auto"
    if found["devices"] < 1:
        return "no hardware is present"
    return None
