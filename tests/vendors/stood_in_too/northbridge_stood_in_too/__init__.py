import northbridge


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    return northbridge.Simulation({})
