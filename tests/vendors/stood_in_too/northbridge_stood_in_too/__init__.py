import northbridge


@northbridge.hookimpl
def northbridge_personality() -> northbridge.Personality:
    return northbridge.Personality({})
