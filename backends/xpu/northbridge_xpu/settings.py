"""Variables of Intel's runtimes, checked before they read them."""

from __future__ import annotations

from typing import Literal

import pydantic

import northbridge


class XPUSettings(northbridge.VendorSettings):
    """The variables that decide which devices torch counts. ``contract.toml`` names the reader of each."""

    ze_flat_device_hierarchy: Literal["FLAT", "COMPOSITE", "COMBINED"] = pydantic.Field(
        default="FLAT", description="FLAT or COMBINED (a device is a tile), or COMPOSITE (a device is a card)"
    )
    ze_affinity_mask: str | None = pydantic.Field(
        default=None, pattern=r"^(\s*\d+(\.\d+)?\s*(,|$))+$", description="a list of devices, such as 0,1"
    )
    oneapi_device_selector: str | None = pydantic.Field(default=None, description="such as level_zero:gpu")

    def reject_absent(self, found: int) -> None:
        """Raise :class:`northbridge.SettingsError` if torch's ``found`` devices are not those that the user chose."""
        mask, selector = self.ze_affinity_mask or "", self.oneapi_device_selector
        named = {each.strip() for each in mask.split(",")} - {""}
        if self.ze_flat_device_hierarchy == "COMPOSITE":
            named = {each.split(".")[0] for each in named}  # two tiles of a card are one device
        if named and len(named) != found:
            said = f"ZE_AFFINITY_MASK={mask!r} names {len(named)} devices; torch.xpu counts {found}"
            raise northbridge.SettingsError(f"{said}. Fix: see xpu-smi discovery", variable="ZE_AFFINITY_MASK")
        if selector and not found:
            said = f"ONEAPI_DEVICE_SELECTOR={selector!r} leaves torch.xpu no device. Fix: unset it"
            raise northbridge.SettingsError(said, variable="ONEAPI_DEVICE_SELECTOR")
