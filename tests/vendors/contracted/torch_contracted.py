"""Stand in for a vendor's torch plugin that is not quite what its contract says."""

from __future__ import annotations

import os
import signal
import sys

import torch

if os.environ.get("CONTRACTED_RELEASE") == "0":
    raise ModuleNotFoundError("No module named 'libcontracted'", name="libcontracted")


def device_count() -> int:
    return 2


def get_device_name(device=None) -> str:
    return "Anvil"


def is_lazy() -> str:
    return os.environ.get("CONTRACTED_LAZY", "0")


def memory_stats(index, detailed):
    return {}


def empty_cache() -> None: ...


class Stream:
    def __init__(self, device=None, priority=0) -> None: ...

    def wait(self, event) -> None: ...


native = max


def self_check() -> int:
    if os.environ.get("CONTRACTED_SELF_CHECK") == "crashes":
        os.kill(os.getpid(), signal.SIGBUS)
    return 0


if os.environ.get("CONTRACTED_RELEASE") == "3":
    del device_count

os.environ.setdefault("MASTER_PORT", "12345")
torch.utils.rename_privateuse1_backend("contracted")
torch._register_device_module("contracted", sys.modules[__name__])
