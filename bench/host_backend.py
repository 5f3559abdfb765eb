"""A backend whose chip is the CPU itself, to measure our strategy apart from any chip."""

from __future__ import annotations

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    from northbridge.lightning.accelerators.cpu import CPUBridge, CPUDevice

    return northbridge.Backend("host", CPUDevice(), northbridge.HostCollective(), CPUBridge())
