"""One of two plugins that claim the name ``twin``."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "twin"


class CCL(northbridge.Collective):
    name = "twin_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("twin")
        torch._register_device_module("twin", ModuleType("twin"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("twin", Card(), CCL(), Software())
