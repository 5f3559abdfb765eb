"""A plugin whose software ends the process when it is loaded."""

from __future__ import annotations

import sys

import northbridge


class Card(northbridge.Device):
    type = "load_exits"


class CCL(northbridge.Collective):
    name = "load_exits_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        sys.exit("no licence for this machine")


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("load_exits", Card(), CCL(), Software())
