"""Variables of the vendor's software, checked before it reads them."""

from __future__ import annotations

import pydantic

import northbridge


class NPUSettings(northbridge.VendorSettings):
    """The vendor's variables that a run depends on. ``contract.toml`` names the reader of each."""

    ascend_rt_visible_devices: northbridge.Indices | None = pydantic.Field(
        default=None, description="a list of NPUs in ascending order, each once, with commas between, such as 0,1,2,3"
    )

    def reject_disorder(self) -> None:
        """Raise :class:`northbridge.SettingsError` if the NPUs are out of order, so that the vendor sees none."""
        chosen = self.ascend_rt_visible_devices
        if chosen is not None and list(chosen) != sorted(chosen):
            raise northbridge.SettingsError(
                f"ASCEND_RT_VISIBLE_DEVICES={_text(chosen)} is not in ascending order. Fix: write"
                f" {_text(tuple(sorted(chosen)))}",
                variable="ASCEND_RT_VISIBLE_DEVICES",
            )

    def reject_absent(self, found: int) -> None:
        """Raise :class:`northbridge.SettingsError` if torch's ``found`` devices are not as many as the user chose."""
        chosen = self.ascend_rt_visible_devices
        if chosen is not None and len(chosen) != found:
            raise northbridge.SettingsError(
                f"ASCEND_RT_VISIBLE_DEVICES={_text(chosen)} names {len(chosen)} NPUs; torch.npu counts {found}."
                " Fix: see npu-smi info",
                variable="ASCEND_RT_VISIBLE_DEVICES",
            )


def _text(indices: tuple[int, ...]) -> str:
    return ",".join(map(str, indices))
