"""A plugin that imports the vendor's software at its top, where it is not installed."""

import northbridge
import torch_import_needs_software


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return torch_import_needs_software.backend()
