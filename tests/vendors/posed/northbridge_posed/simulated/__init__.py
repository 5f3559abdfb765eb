from __future__ import annotations

from pathlib import Path

import northbridge


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    here = Path(__file__).parent
    return northbridge.Simulation(
        {"torch_posed": here / "torch_posed"}, autoloads=("torch_posed",), tools={"posed-smi": here / "posed_smi.py"}
    )
