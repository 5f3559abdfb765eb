"""A plugin whose driver ends the process that asks it."""

from __future__ import annotations

import os
import sys

import northbridge


class Card(northbridge.Device):
    type = "probe_exits"


class CCL(northbridge.Collective):
    name = "probe_exits_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        print("acme: firmware 0x0 is not supported", file=sys.stderr, flush=True)
        os._exit(7)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("probe_exits", Card(), CCL(), Software())
