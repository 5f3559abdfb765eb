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
        named = {each.strip() for each in (self.ze_affinity_mask or "").split(",") if each}
        if self.ze_flat_device_hierarchy == "COMPOSITE":
            named = {each.split(".")[0] for each in named}  # two tiles of a card are one device
        if named and len(named) != found:
            name, said, fix = "ZE_AFFINITY_MASK", f"{self.ze_affinity_mask!r} names {len(named)}", "xpu-smi discovery"
        elif found == 0 and self.oneapi_device_selector:
            name, said, fix = "ONEAPI_DEVICE_SELECTOR", f"{self.oneapi_device_selector!r} hides them", "sycl-ls"
        else:
            return
        text = f"{name}={said}; torch.xpu counts {found} devices. Fix: see {fix}"
        raise northbridge.SettingsError(text, variable=name)
