"""What a vendor's ``simulated/`` brings, so that its chip can be simulated where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Simulation:
    """Say which of the vendor's modules are stood in for, and where the code of each stand-in lies.

    ``stand_ins`` maps the name of a top-level module, ``"torch_acme"``, to a file, or to the folder of a package. No
    wheel may install a module of such a name: the core gives it the name, in a process that asks for the simulation.
    """

    stand_ins: Mapping[str, Path]

    dev: Callable[[], Path] | None = None
    """Returns the folder in which the simulated cards have their device files, as the real ones have in ``/dev``."""

    autoloads: tuple[str, ...] = ()
    """The modules among them that ``import torch`` imports at its end, as the vendor's own entry point has it do."""

    tools: Mapping[str, Path] = field(default_factory=dict)
    """The vendor's commands that are stood in for, by name: a Python file each, for :func:`northbridge.run_tool`."""

    strict_options: Mapping[str, str] = field(default_factory=dict)
    """As :attr:`northbridge.Bridge.strict_options`, for the chip that it makes of the backend."""
