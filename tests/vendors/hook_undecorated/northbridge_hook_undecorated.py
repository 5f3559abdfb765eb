"""A plugin that forgot ``@northbridge.hookimpl``."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "hook_undecorated"


class CCL(northbridge.Collective):
    name = "hook_undecorated_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("hook_undecorated")
        torch._register_device_module("hook_undecorated", ModuleType("hook_undecorated"))


def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("hook_undecorated", Card(), CCL(), Software())
