"""A vendor's ``simulated/``: the parts that simulate its chip on a machine without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Simulation:
    """The vendor's modules that have stand-ins, and the code of each.

    ``stand_ins`` maps the name of a top-level module, such as ``"torch_acme"``, to a file, to a package's folder, or to
    the dotted name of a module of yours. That module has a table ``STAND_INS``, which maps the name of each of the
    vendor's modules to its names and their objects, or to a function that the import calls and that returns them.

    Wheels must not install modules of the vendor's names: the core assigns them in a process that asks for the
    simulation.
    """

    stand_ins: Mapping[str, Path | str]

    chip: str = ""
    """The chip's name in messages: "the simulated Anvil has no …". The default is the backend's name."""

    page: str = ""
    """Where a user reads what is simulated, to end the same message."""

    instead: Mapping[str, str] = field(default_factory=dict)
    """Names that the stand-ins lack on purpose, each with what a user writes instead: the end of the same message."""

    dev: Callable[[], Path] | None = None
    """Returns the folder with the device files of the simulated cards; real cards have theirs in ``/dev``."""

    autoloads: tuple[str, ...] = ()
    """The stand-ins that ``import torch`` imports at its end, as it would import the vendor's modules."""

    found: Mapping[str, str] = field(default_factory=dict)
    """Names in other packages' modules that are true if the vendor's package was found: module and name. Modules that
    were imported before the stand-ins could be found have looked in vain, and are corrected."""

    built_in: str = ""
    """For a chip that torch itself supports: the module whose import changes torch as if it were built for the chip.
    ``import torch`` imports it at its end; if torch's autoload is off, the backend's loading does."""

    tools: Mapping[str, Path] = field(default_factory=dict)
    """Stand-ins for the vendor's commands, by name: one Python file each, for :func:`northbridge.run_tool`."""

    strict_options: Mapping[str, str] = field(default_factory=dict)
    """As :attr:`northbridge.Bridge.strict_options`, for the simulated chip."""
