"""Basalt B1, a backend of Northbridge."""

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without touching torch."""
    from northbridge_basalt import bridge, collective, device

    # Claim what the chip can do, and deny with a reason what it cannot. The conformance suite tests both.
    claims = northbridge.Capabilities.of_level(
        "C3",
        bfloat16=northbridge.yes,
        float64=northbridge.no("it has no double precision"),
        fork=northbridge.no("its driver does not survive a fork"),
    )
    return northbridge.Backend(
        "basalt",
        device.ChipDevice(),
        collective.ChipCollective(),
        bridge.ChipBridge(),
        claims,
    )
