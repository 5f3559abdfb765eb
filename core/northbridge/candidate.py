"""What ``accelerator="auto"`` has to know of a backend that nobody has named."""

from __future__ import annotations

from dataclasses import dataclass

from northbridge.discovery import detect, get, is_declared
from northbridge.inquiry import Reply, ask, remember, reply
from northbridge.settings import CoreSettings


@dataclass(frozen=True)
class Candidate:
    """One backend; its devices are not counted where ``auto`` could not choose it anyway."""

    devices: int
    simulated: bool
    auto: bool


def candidate(name: str) -> Candidate:
    """Return what there is to know of backend ``name``, importing its plugin in a child process.

    Nobody has asked for the plugin, so that whatever is wrong with it must not reach this process. One that is imported
    already is asked here. Raises what :func:`northbridge.get` raises, or :class:`DetectionError`.
    """
    if is_declared(name):
        return _look(name)
    # The child may ask a child of its own, which has the whole of the time that detection has, and a start.
    limit = 2 * CoreSettings.read().detect_timeout + 5.0
    found = ask(name, answer, key=f"{name} as a candidate", limit=limit)
    if found["devices"] > 0:
        remember(name, {"devices": found["devices"]})  # the one that is chosen is asked next
    return Candidate(found["devices"], simulated=found.get("simulated", False), auto=found.get("auto", True))


def answer(name: str) -> None:
    """Tell what this process, the child, finds out."""

    def find() -> Reply:
        found = _look(name)
        return {"devices": found.devices, "simulated": found.simulated, "auto": found.auto}

    reply(find)


def _look(name: str) -> Candidate:
    capabilities = get(name).capabilities
    possible = capabilities.auto and not capabilities.simulated
    return Candidate(detect(name) if possible else 0, simulated=capabilities.simulated, auto=capabilities.auto)
