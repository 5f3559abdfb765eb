"""The program that a forked process runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


@dataclass(frozen=True)
class Program:
    """Return the program of ``python command`` with only these variables, started in ``folder``."""

    command: tuple[str, ...]
    """``-m``, a module and its arguments; or a script's absolute path and its arguments."""

    environ: dict[str, str]
    folder: Path
    starts_ranks: bool = False
    """True if Lightning may start ranks as scripts in it; these are then forks too."""

    asks_on: bool = False
    """True if its own forks come from its server, and not from another one."""

    @property
    def name(self) -> str:
        """The module's name, or the script's path."""
        return self.command[1] if self.command[0] == "-m" else self.command[0]
