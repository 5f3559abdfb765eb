"""Where torch's own support of Intel's GPUs meets Northbridge."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

import northbridge
from northbridge_xpu.cards import cards
from northbridge_xpu.settings import XPUSettings

_MISSING = "this torch was built without Intel's GPUs. Fix: pip install torch --index-url"


class XPUBridge(northbridge.Bridge):
    """Loads nothing but torch: ``torch.xpu`` is there, and works if torch was built for Intel's GPUs."""

    def missing(self) -> str | None:
        there = northbridge.get(self.backend).capabilities.simulated or _is_built()
        return None if there else f"{_MISSING} https://download.pytorch.org/whl/xpu"

    def check_environment(self) -> None:
        XPUSettings.read()

    def check_count(self, count: int) -> None:
        if self.missing() is None:
            XPUSettings.read().reject_absent(count)

    def load(self) -> None:
        import torch.xpu  # noqa: F401 - a device of torch's own

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:
        settings, found = XPUSettings.read(), cards()
        if settings.ze_flat_device_hierarchy == "COMPOSITE" or settings.ze_affinity_mask or not found:
            return None
        tiles, others = divmod(total, len(found))
        return None if others else len({device // tiles for device in devices})

    def describe_machine(self) -> dict[str, object]:
        return {"cards": cards() or "unknown: xpu-smi is not installed"}


def _is_built() -> bool:
    """Return True if this torch was built for Intel's GPUs; import nothing to find out."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return bool(torch.xpu._is_compiled())
    found = find_spec("torch")
    return found is not None and any(Path(str(found.origin)).with_name("lib").glob("*c10_xpu*"))
