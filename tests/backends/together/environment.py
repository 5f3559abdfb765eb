"""The environment of a script in a process of its own for each chip: torch serves one accelerator a process."""

from __future__ import annotations

import os
from pathlib import Path

from northbridge_conformance.runs.processes import tells_of_a_launcher

ACCELERATORS = ("cpu", "cpu_sim", "hpu", "sdaa")


def environment_on(accelerator: str, folder: Path) -> dict[str, str]:
    """Return the environment of a user of ``accelerator``, which is simulated where it is a vendor's."""
    ours = ("NORTHBRIDGE_", "_NORTHBRIDGE_")
    environ = {
        name: value for name, value in os.environ.items() if not tells_of_a_launcher(name) and not name.startswith(ours)
    }
    environ |= {"NORTHBRIDGE_HPU_SIM_SERVER": str(folder / "server")}
    return {**environ, "NORTHBRIDGE_SIMULATE": accelerator} if accelerator in ("hpu", "sdaa") else environ
