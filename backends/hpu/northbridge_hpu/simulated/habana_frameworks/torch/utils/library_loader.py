"""The names of ``habana_frameworks.torch.utils.library_loader``."""

from __future__ import annotations

from northbridge_hpu.simulated.devices import is_available as is_habana_available
from northbridge_hpu.simulated.record import watch as _watch

__all__ = ["is_habana_available", "load_habana_module"]


def load_habana_module() -> None:
    """Do nothing: the import of ``habana_frameworks.torch`` has loaded the bridge."""


_watch(__name__)
