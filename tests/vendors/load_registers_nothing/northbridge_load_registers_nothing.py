"""A plugin that loads something, after which torch knows its device no more than before."""

from __future__ import annotations

import northbridge


class Card(northbridge.Device):
    type = "load_registers_nothing"


class CCL(northbridge.Collective):
    name = "load_registers_nothing_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import json  # anything but what registers the device


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("load_registers_nothing", Card(), CCL(), Software())
