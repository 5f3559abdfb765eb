"""Where torch's own support of Intel GPUs meets Northbridge."""

from __future__ import annotations

from collections.abc import Collection

import northbridge
from northbridge_xpu.cards import cards
from northbridge_xpu.settings import XPUSettings

INDEX = "https://download.pytorch.org/whl/xpu"


class XPUBridge(northbridge.Bridge):
    """Loads nothing: ``import torch`` brings ``torch.xpu``, which works if torch was built for Intel's GPUs."""

    def missing(self) -> str | None:
        import torch

        if torch.xpu._is_compiled():
            return None
        return f"this torch was built without Intel's GPUs. Fix: pip install torch --index-url {INDEX}"

    def detect(self) -> int | None:
        return super().detect() if self.missing() is None else 0

    def check_environment(self) -> None:
        XPUSettings.read().reject_tiles_of_cards()

    def check_count(self, count: int) -> None:
        if self.missing() is None:
            XPUSettings.read().reject_absent(count)

    def load(self) -> None:
        missing = self.missing()
        if missing is not None:
            raise northbridge.SoftwareMissingError(missing, backend=self.backend)

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:
        settings, found = XPUSettings.read(), cards()
        if settings.devices_are_cards or settings.ze_affinity_mask or not found or total % len(found):
            return None
        tiles = total // len(found)
        return len({device // tiles for device in devices})

    def describe_machine(self) -> dict[str, object]:
        found = cards()
        return {"cards": "unknown: xpu-smi is not installed" if found is None else list(found)}
