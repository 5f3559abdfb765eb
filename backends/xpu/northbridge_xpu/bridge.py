"""Where torch's own support of Intel's GPUs meets Northbridge."""

from __future__ import annotations

from collections.abc import Collection

import northbridge
from northbridge_xpu.cards import cards
from northbridge_xpu.settings import XPUSettings


class XPUBridge(northbridge.Bridge):
    """Loads nothing: ``import torch`` brings ``torch.xpu``, which works if torch was built for Intel's GPUs."""

    def missing(self) -> str | None:
        import torch

        index = "https://download.pytorch.org/whl/xpu"
        fix = f"this torch was built without Intel's GPUs. Fix: pip install torch --index-url {index}"
        return None if torch.xpu._is_compiled() else fix

    def detect(self) -> int | None:
        return 0 if self.missing() else None

    def check_environment(self) -> None:
        XPUSettings.read()

    def check_count(self, count: int) -> None:
        if not self.missing():
            XPUSettings.read().reject_absent(count)

    def load(self) -> None:
        if missing := self.missing():
            raise northbridge.SoftwareMissingError(missing, backend=self.backend)

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:
        settings, found = XPUSettings.read(), cards()
        if settings.ze_flat_device_hierarchy == "COMPOSITE" or settings.ze_affinity_mask or not found:
            return None
        tiles, others = divmod(total, len(found))
        return None if others else len({device // tiles for device in devices})

    def describe_machine(self) -> dict[str, object]:
        return {"cards": cards() or "unknown: xpu-smi is not installed"}
