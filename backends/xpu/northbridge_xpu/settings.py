"""Variables of Intel's runtimes, checked before they read them."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

import northbridge

Mask = Annotated[str, pydantic.StringConstraints(pattern=r"^\s*\d+(\.\d+)?\s*(,\s*\d+(\.\d+)?\s*)*$")] | None


class XPUSettings(northbridge.VendorSettings):
    """The variables that decide which devices torch counts. ``contract.toml`` names the reader of each."""

    ze_flat_device_hierarchy: Literal["FLAT", "COMPOSITE", "COMBINED"] = pydantic.Field(
        default="FLAT", description="FLAT or COMBINED (a device is a tile), or COMPOSITE (a device is a card)"
    )
    ze_affinity_mask: Mask = pydantic.Field(default=None, description="a list of devices, such as 0,1 or 0.0,0.1")
    oneapi_device_selector: str | None = pydantic.Field(default=None, description="such as level_zero:gpu")

    @property
    def devices_are_cards(self) -> bool:
        """True if a card of several tiles is one device."""
        return self.ze_flat_device_hierarchy == "COMPOSITE"

    def reject_tiles_of_cards(self) -> None:
        """Raise :class:`northbridge.SettingsError` for a mask such as 0.1 where each tile is a device."""
        if self.ze_affinity_mask is not None and "." in self.ze_affinity_mask and not self.devices_are_cards:
            raise northbridge.SettingsError(
                f"ZE_AFFINITY_MASK={self.ze_affinity_mask!r} names tiles of cards, but each tile is a device. Fix: number"
                " the tiles, or set ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE",
                variable="ZE_AFFINITY_MASK",
            )

    def reject_absent(self, found: int) -> None:
        """Raise :class:`northbridge.SettingsError` if torch's ``found`` devices are not those that the user chose."""
        if self.ze_affinity_mask is not None:
            named = {each.split(".")[0].strip() for each in self.ze_affinity_mask.split(",")}
            if len(named) != found:
                raise northbridge.SettingsError(
                    f"ZE_AFFINITY_MASK={self.ze_affinity_mask!r} names {len(named)} devices; torch.xpu counts {found}."
                    " Fix: see `xpu-smi discovery`",
                    variable="ZE_AFFINITY_MASK",
                )
        if not found and self.oneapi_device_selector is not None:
            raise northbridge.SettingsError(
                f"ONEAPI_DEVICE_SELECTOR={self.oneapi_device_selector!r}: torch.xpu counts no device. Fix: unset it",
                variable="ONEAPI_DEVICE_SELECTOR",
            )
