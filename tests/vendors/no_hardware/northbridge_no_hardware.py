"""A healthy plugin on a machine that has the vendor's software and no card."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "no_hardware"

    def count(self) -> int:
        return 0


class CCL(northbridge.Collective):
    name = "no_hardware_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("no_hardware")
        torch._register_device_module("no_hardware", ModuleType("no_hardware"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("no_hardware", Card(), CCL(), Software())
