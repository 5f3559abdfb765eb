"""A healthy plugin on a machine without the vendor's software."""

from __future__ import annotations

import northbridge


class Card(northbridge.Device):
    type = "load_needs_software"


class CCL(northbridge.Collective):
    name = "load_needs_software_ccl"


class Software(northbridge.Bridge):
    package = "torch_load_needs_software"

    def load(self) -> None:
        import torch_load_needs_software  # registers the device


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("load_needs_software", Card(), CCL(), Software())
