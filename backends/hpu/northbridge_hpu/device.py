"""The HPU, as torch sees it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import northbridge
import northbridge_hpu.cards as cards

if TYPE_CHECKING:
    import torch

NO_GRAPHS_IN_EAGER_MODE = "the vendor's graphs need lazy mode, and this is eager mode"
_GENERATIONS = {"synDeviceGaudi": 1, "synDeviceGaudi2": 2, "synDeviceGaudi3": 3}


class HPUDevice(northbridge.Device):
    """The HPU of a process, which holds one card as device 0. The card's module id is set before the first use."""

    type = "hpu"
    out_of_memory = ("out of memory", "DEVMEM Allocation failed")

    def __init__(self) -> None:
        self._held: int | None = None
        self._held_int64_as_int32 = False

    def count(self) -> int:
        # The vendor's own count is the machine's: it does not read HABANA_VISIBLE_MODULES.
        return len(cards.visible_modules()) if cards.can_be_asked() else int(self.module.device_count())

    def root(self, index: int) -> torch.device:
        return super().root(0)

    def select(self, index: int) -> None:
        if self._held == index:
            return
        if self._held is not None:
            raise northbridge.WrongDeviceError(
                f"this process holds device {self._held} of 'hpu', not {index}. Fix: use another process,"
                " or `if trainer.is_global_zero:`"
            )
        self._acquire(index)
        self._held, self._held_int64_as_int32 = index, self._holds_int64_as_int32()

    def _acquire(self, index: int) -> None:
        try:
            self.module.current_device()
        except RuntimeError as error:
            if "acquire" not in str(error).lower():
                raise
            said = str(error).splitlines()[0].rstrip(".")
            absent = "found" in said  # "No devices found", "[Device not found]"
            raise (northbridge.DetectionError if absent else northbridge.DeviceBusyError)(
                f"device {index} of 'hpu' (HLS_MODULE_ID={os.environ.get('HLS_MODULE_ID')}) could not be acquired:"
                f" {said}{'. Fix: see hl-smi, and give the container the card' if absent else f'; {_who_holds_it()}'}",
                backend="hpu",
            ) from error

    def synchronize(self) -> None:
        self.module.synchronize()  # the vendor's function has no device parameter

    def label(self, index: int) -> str:
        # Not get_device_name, which takes the card.
        return f"GAUDI{self.generation if self.generation > 1 else ''}"

    @cached_property
    def generation(self) -> int:
        """Generation of this machine's Gaudi: 1, 2 or 3; found without acquiring a card."""
        import habana_frameworks.torch.utils.experimental as experimental

        found = experimental._get_device_type()
        for name, number in _GENERATIONS.items():
            if found == getattr(experimental.synDeviceType, name, None):
                return number
        known = ", ".join(_GENERATIONS)
        raise northbridge.SoftwareLoadError(
            f"unknown HPU type {found}, not {known}. Fix: upgrade Northbridge",
            backend="hpu",
        )

    def memory_stats(self, index: int) -> dict[str, float]:
        return dict(self.module.memory_stats())  # always of the card that this process holds

    def capabilities(self, claimed: northbridge.Capabilities) -> northbridge.Capabilities:
        from habana_frameworks.torch.utils.internal import is_lazy

        first = self.generation == 1
        # The card decides when it is acquired.
        narrow = self._holds_int64_as_int32() if self._held is None else self._held_int64_as_int32
        return replace(
            claimed,
            compile=northbridge.no("lazy mode makes graphs by itself") if is_lazy() else claimed.compile,
            float16=northbridge.no("the first generation of Gaudi has none") if first else northbridge.yes,
            float8=northbridge.no("the first generation of Gaudi has none") if first else northbridge.yes,
            graphs=northbridge.yes if is_lazy() else northbridge.no(NO_GRAPHS_IN_EAGER_MODE),
            data_loaders=northbridge.no("the vendor's loader is for the generations before it")
            if self.generation == 3
            else claimed.data_loaders,
            int64=northbridge.no("it is held as int32 there") if narrow else northbridge.yes,
        )

    def _holds_int64_as_int32(self) -> bool:
        from habana_frameworks.torch.utils.internal import is_lazy

        asked = os.environ.get("PT_ENABLE_INT64_SUPPORT", "")
        native = not is_lazy() and self.generation > 1
        return not native or asked.lower() in ("0", "false")

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        import torch

        return (torch.bfloat16,) if self.generation == 1 else (torch.bfloat16, torch.float16)


def _who_holds_it() -> str:
    """Return the holders of the card that HLS_MODULE_ID names, if they are known, and the fix."""
    everything = cards.cards() if cards.can_be_asked() else ()
    wanted = next((card.index for card in everything if str(card.module) == os.environ.get("HLS_MODULE_ID")), None)
    found = northbridge.device_users(cards.DEVICE_FILE)
    who = [
        f"process {pid} ({command})"
        for pid, (index, command) in found.items()
        if pid != os.getpid() and wanted in (None, index)
    ]
    free = ", ".join(str(module) for module in sorted(card.module for card in everything if not card.is_held))
    rest = f", or set HABANA_VISIBLE_MODULES to free modules ({free})" if free else ""
    if who:
        return f"{' and '.join(who)} {'hold' if len(who) > 1 else 'holds'} it. Fix: wait for it or end it{rest}"
    return f"no process that this user can see holds it. Fix: see sudo hl-smi for other users and containers{rest}"
