"""Where torch's own support of Intel's GPUs meets Northbridge."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

import northbridge
from northbridge_xpu.cards import cards
from northbridge_xpu.settings import XPUSettings

INDEX = "https://download.pytorch.org/whl/xpu"


class XPUBridge(northbridge.Bridge):
    """Loads nothing but torch: ``torch.xpu`` is there, and works if torch was built for Intel's GPUs."""

    def missing(self) -> str | None:
        torch, spec = sys.modules.get("torch"), find_spec("torch")
        libraries = Path(spec.origin).with_name("lib").glob("*c10_xpu*") if spec and spec.origin else ()
        built = torch.xpu._is_compiled() if torch else any(libraries)  # the latter imports nothing
        said = f"this torch was built without Intel's GPUs. Fix: pip install torch --index-url {INDEX}"
        return None if built or northbridge.get("xpu").capabilities.simulated else said

    def check_environment(self) -> None:
        XPUSettings.read()

    def check_count(self, count: int) -> None:
        if self.missing() is None:
            XPUSettings.read().reject_absent(count)

    def load(self) -> None:
        import torch.xpu  # noqa: F401 - a device of torch's own

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:
        found = None if XPUSettings.read().ze_affinity_mask else cards()
        tiles, others = divmod(total, len(found)) if found else (0, 1)
        return None if others else len({device // tiles for device in devices})

    def describe_machine(self) -> dict[str, object]:
        return {"cards": cards() or "unknown: xpu-smi is not installed"}
