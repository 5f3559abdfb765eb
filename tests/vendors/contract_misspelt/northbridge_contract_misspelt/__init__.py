"""A healthy plugin whose contract cannot be read."""

from __future__ import annotations

import northbridge


class Card(northbridge.Device):
    type = "contract_misspelt"


class CCL(northbridge.Collective):
    name = "contract_misspelt_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        import torch
        from types import ModuleType

        torch.utils.rename_privateuse1_backend("contract_misspelt")
        torch._register_device_module("contract_misspelt", ModuleType("contract_misspelt"))

    def detect(self) -> int:
        return 1


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    # Not for auto: tests count whom it could choose.
    return northbridge.Backend("contract_misspelt", Card(), CCL(), Software(), northbridge.Capabilities(auto=False))
