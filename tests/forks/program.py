"""What a process that was forked is to run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


@dataclass(frozen=True)
class Program:
    """What ``python command`` is, with these variables and no others, started in ``folder``."""

    command: tuple[str, ...]
    """``-m``, a module and its arguments; or a script's absolute path and its arguments."""

    environ: dict[str, str]
    folder: Path
    starts_ranks: bool = False
    """Whether it may start ranks as scripts by Lightning, which are forks too then."""

    asks_on: bool = False
    """Whether what it forks itself is to be forked by its own server, rather than by one more."""

    @property
    def name(self) -> str:
        """The module's name, or the script's path."""
        return self.command[1] if self.command[0] == "-m" else self.command[0]
