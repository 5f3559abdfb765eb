"""Have the bridge set what the vendor's import reads, where the user has set nothing, and where the user has."""

from __future__ import annotations

import os
from pathlib import Path

import northbridge
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.scenario import Scenario

USERS = "as the user has it"
"""What a user has set, whatever it means."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report what was set, and which of the user's values did not stay; nothing is loaded."""
    bridge = northbridge.get(scenario.accelerator).bridge
    before = dict(os.environ)
    try:
        bridge.prepare()
        found = {"changed": changed_since(before)}
        added = sorted(set(os.environ) - set(before))
        os.environ.update(dict.fromkeys(added, USERS))
        try:
            bridge.prepare()
            found["overwritten"] = [name for name in added if os.environ.get(name) != USERS]
        except northbridge.VariableError as error:
            # A value that makes no sense may be refused; it is not to be replaced.
            found["overwritten"] = [] if os.environ.get(error.variable) == USERS else [error.variable]
    finally:
        os.environ.clear()
        os.environ.update(before)
    write(folder, "preparing", 0, {**found, "set": added})


def changed_since(before: dict[str, str]) -> list[str]:
    """Return the variables that had another value ``before``, or are gone."""
    return sorted(name for name, value in before.items() if os.environ.get(name) != value)
