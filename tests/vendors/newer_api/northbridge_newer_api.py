"""A plugin that was built for version 2 of the plugin API."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "newer_api"


class CCL(northbridge.Collective):
    name = "newer_api_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("newer_api")
        torch._register_device_module("newer_api", ModuleType("newer_api"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("newer_api", Card(), CCL(), Software(), api=2)
