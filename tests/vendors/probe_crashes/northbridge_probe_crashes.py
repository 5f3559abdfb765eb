"""A plugin whose driver crashes the process that asks it."""

from __future__ import annotations

import os
import signal

import northbridge


class Card(northbridge.Device):
    type = "probe_crashes"


class CCL(northbridge.Collective):
    name = "probe_crashes_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("probe_crashes", Card(), CCL(), Software())
