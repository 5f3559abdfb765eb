from pathlib import Path

import northbridge


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    return northbridge.Simulation(
        {"torch_anvil": Path(__file__).with_name("torch_anvil.py")}, autoloads=("torch_anvil",)
    )
