"""A plugin with a contract, of which the lines that it cannot do without are right."""

from __future__ import annotations

import os
import signal
import threading

import northbridge


class Card(northbridge.Device):
    type = "contracted"

    def select(self, index: int) -> None:
        state = os.environ.get("CONTRACTED_CARD")
        if state == "free":
            return
        if state == "taken":
            raise northbridge.DeviceBusyError("device 0 of 'contracted' is held by process 4711", backend="contracted")
        threading.Event().wait()


class CCL(northbridge.Collective):
    name = "contracted_ccl"


class Software(northbridge.Bridge):
    package = "torch_contracted"

    def load(self) -> None:
        import torch_contracted  # registers the device, and writes MASTER_PORT

    def detect(self) -> int:
        return int(os.environ.get("CONTRACTED_CARDS", "2"))

    def describe_machine(self) -> dict[str, object]:
        deed = os.environ.get("CONTRACTED_MACHINE")
        if deed == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if deed == "hangs":
            pipe = open(os.environ.get("CONTRACTED_PIPE", os.devnull), "w")  # held as long as this process lives
            threading.Event().wait()
        if deed == "raises":
            raise OSError("no management library")
        cards = [{"index": 0, "model": "Anvil", "held by": None}, {"index": 1, "model": "Anvil", "held by": 4711}]
        return {"driver": "7.1", "firmware": b"fw-3", "cards": cards, "module of index": {0: 3, 1: 1}}

    def check_environment(self) -> None:
        visible = os.environ.get("CONTRACTED_VISIBLE", "0")
        if visible == "raises":
            raise KeyError(visible)
        if not visible.isdecimal():
            raise northbridge.VariableError(
                f"CONTRACTED_VISIBLE={visible!r} is not a card's number. Fix: unset it for all cards",
                variable="CONTRACTED_VISIBLE",
            )


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    # Not for auto: tests count whom it could choose.
    return northbridge.Backend("contracted", Card(), CCL(), Software(), northbridge.Capabilities(auto=False))
