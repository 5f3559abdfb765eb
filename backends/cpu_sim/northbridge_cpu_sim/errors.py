"""What can go wrong before the simulated chip is there."""

from __future__ import annotations

import northbridge


class BuildError(northbridge.SoftwareLoadError):
    """The simulated chip could not be compiled, or its compiled file could not be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, backend="cpu_sim")
