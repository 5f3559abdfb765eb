"""A plugin that was built for version 0 of the plugin API."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "older_api"


class CCL(northbridge.Collective):
    name = "older_api_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("older_api")
        torch._register_device_module("older_api", ModuleType("older_api"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("older_api", Card(), CCL(), Software(), api=0)
