"""Variables of the vendor's software, checked before it reads them."""

from __future__ import annotations

from typing import Literal

import pydantic

import northbridge

Switch = Literal["0", "1"] | None


class SDAASettings(northbridge.VendorSettings):
    """The vendor's variables that a run depends on. ``contract.toml`` names the reader of each."""

    sdaa_visible_devices: northbridge.Indices | None = pydantic.Field(
        default=None, description="a list of devices (core groups), each once, with commas between, such as 0,1,2,3"
    )
    torch_sdaa_align_nv_device: Literal["a100", "v100"] | None = pydantic.Field(
        default=None, description="a100 or v100 (anything else, 0 and off too, aborts the vendor's software)"
    )
    torch_sdaa_autoload: str | None = pydantic.Field(default=None, description="what the vendor's manual lists")
    torch_sdaa_conv_use_fp32: Switch = pydantic.Field(default=None, description="0 or 1")
    torch_sdaa_conv2d_backward_use_fp32: Switch = pydantic.Field(default=None, description="0 or 1")
    torch_sdaa_bf16_clip: Switch = pydantic.Field(default=None, description="0 or 1")

    def reject_migration(self) -> None:
        """Raise :class:`northbridge.SettingsError` if the chip would look like CUDA."""
        if self.torch_sdaa_autoload == "cuda_migrate":
            raise northbridge.SettingsError(
                "TORCH_SDAA_AUTOLOAD=cuda_migrate fakes CUDA. Fix: unset it",
                variable="TORCH_SDAA_AUTOLOAD",
            )

    def reject_absent(self, found: int) -> None:
        """Raise :class:`northbridge.SettingsError` if torch's ``found`` devices are not as many as the user chose."""
        chosen = self.sdaa_visible_devices
        if chosen is not None and len(chosen) != found:
            raise northbridge.SettingsError(
                f"SDAA_VISIBLE_DEVICES={','.join(map(str, chosen))} names {len(chosen)} core groups; torch.sdaa"
                f" counts {found}. Fix: see teco-smi",
                variable="SDAA_VISIBLE_DEVICES",
            )
