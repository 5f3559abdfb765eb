"""A plugin that announces ``other_name`` and declares ``another_name``."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "another_name"


class CCL(northbridge.Collective):
    name = "another_name_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("another_name")
        torch._register_device_module("another_name", ModuleType("another_name"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("another_name", Card(), CCL(), Software())
