"""A plugin whose hook takes an argument that nobody gives."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "hook_takes_arguments"


class CCL(northbridge.Collective):
    name = "hook_takes_arguments_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("hook_takes_arguments")
        torch._register_device_module("hook_takes_arguments", ModuleType("hook_takes_arguments"))


@northbridge.hookimpl
def northbridge_backend(config: dict[str, str]) -> northbridge.Backend:
    return northbridge.Backend("hook_takes_arguments", Card(), CCL(), Software())
