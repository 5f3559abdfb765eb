"""A plugin that brings the names of the package which its users come from. Its chip has names only, and two cards."""

from __future__ import annotations

import warnings
from types import ModuleType

import northbridge


class Anvil(northbridge.Device):
    type = "anvil"


class ACL(northbridge.Collective):
    name = "acl"

    def register(self) -> None:
        import torch

        torch.distributed.Backend.register_backend("acl", lambda *_: None, devices=["anvil"])


class AnvilBridge(northbridge.Bridge):
    def detect(self) -> int:
        return 2

    def load(self) -> None:
        import torch

        module = ModuleType("torch.anvil")
        module.get_amp_supported_dtype = lambda: [torch.bfloat16]
        module.device_count = lambda: 2
        module.manual_seed_all = lambda _seed: None
        module.is_available = lambda: True
        torch.utils.rename_privateuse1_backend("anvil")
        torch._register_device_module("anvil", module)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("anvil", Anvil(), ACL(), AnvilBridge())


class AnvilDDPStrategy(northbridge.DDPStrategyName, backend="anvil"):
    pass


class SingleAnvilStrategy(northbridge.SingleDeviceStrategyName, backend="anvil"):
    pass


def single_misspelt() -> SingleAnvilStrategy:
    warnings.warn("strategy='anvil_sinlge' is misspelt; write 'anvil_single'", stacklevel=2)
    return SingleAnvilStrategy()


def make_nothing() -> str:
    return "ddp"
