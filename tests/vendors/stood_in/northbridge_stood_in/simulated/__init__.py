from pathlib import Path

import northbridge


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    return northbridge.Simulation(
        {"torch_stood_in": Path(__file__).with_name("torch_stood_in")}, found={"another_package": "STOOD_IN_FOUND"}
    )
