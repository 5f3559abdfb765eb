"""A plugin that misspells its hook."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "hook_misspelt"


class CCL(northbridge.Collective):
    name = "hook_misspelt_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("hook_misspelt")
        torch._register_device_module("hook_misspelt", ModuleType("hook_misspelt"))


@northbridge.hookimpl
def northbridge_backends() -> northbridge.Backend:
    return northbridge.Backend("hook_misspelt", Card(), CCL(), Software())
