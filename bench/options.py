"""The strict options of the simulated chip; what each costs is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option: its name for ``--only``, what it says to people, and the variables that switch it on."""

    name: str
    what: str
    variables: Mapping[str, str]
    """``{folder}`` in a value is a new folder."""


# One row each in the report. A variable that the chip does not know is an error of the chip's, not a row of 1.0.
OPTIONS = (
    Option("deferred-streams", "with deferred streams", {"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"}),
    Option("nan-in-fresh-memory", "with NaN in fresh memory", {"NORTHBRIDGE_CPU_SIM_FRESH": "nan"}),
    Option("trap-in-freed-memory", "with a trap in freed memory", {"NORTHBRIDGE_CPU_SIM_FREED": "trap"}),
    Option("asynchronous-errors", "with asynchronous errors", {"NORTHBRIDGE_CPU_SIM_ERRORS": "asynchronous"}),
    Option("checked-collectives", "with checked collectives", {"NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1"}),
    Option("flight-recorder", "with the flight recorder", {"NORTHBRIDGE_FLIGHT_RECORDER": "{folder}"}),
    # A step that never comes.
    Option("planned-fault", "with a planned fault", {"NORTHBRIDGE_CPU_SIM_FAULTS": "raise op=mm step=1000000000"}),
)
