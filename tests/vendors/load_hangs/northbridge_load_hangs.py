"""A plugin whose driver never answers: the child process that asks it hangs."""

from __future__ import annotations

import threading

import northbridge


class Card(northbridge.Device):
    type = "load_hangs"


class CCL(northbridge.Collective):
    name = "load_hangs_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        threading.Event().wait()


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("load_hangs", Card(), CCL(), Software())
