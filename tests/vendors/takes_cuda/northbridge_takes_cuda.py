"""A plugin that takes a name which Lightning has."""

from __future__ import annotations

from types import ModuleType

import northbridge


class Card(northbridge.Device):
    type = "cuda"


class CCL(northbridge.Collective):
    name = "cuda_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch

        torch.utils.rename_privateuse1_backend("cuda")
        torch._register_device_module("cuda", ModuleType("cuda"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("cuda", Card(), CCL(), Software())
