"""A plugin whose own ``detect()`` never answers."""

from __future__ import annotations

import threading
from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "detect_hangs"


class CCL(northbridge.Collective):
    name = "detect_hangs_ccl"


class Software(northbridge.Bridge):
    def detect(self) -> int:
        threading.Event().wait()
        return 1

    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("detect_hangs")
        torch._register_device_module("detect_hangs", ModuleType("detect_hangs"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("detect_hangs", Card(), CCL(), Software())
