from __future__ import annotations

from pathlib import Path

import northbridge


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    here = Path(__file__).parent
    return northbridge.Simulation(
        {"torch_flint": here / "torch_flint"}, autoloads=("torch_flint",), tools={"flint-smi": here / "flint_smi.py"}
    )
