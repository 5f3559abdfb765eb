"""Variables of the vendor's software, checked before it reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

import pydantic
from typing_extensions import Self

import northbridge

KNOWN_SUBSETS = ("0,1", "2,3", "4,5", "6,7", "0,1,2,3", "4,5,6,7", "0,1,2,3,4,5,6,7")
"""The sets of module ids that may talk to each other: docs.habana.ai, "Multiple Workloads on a Single Docker"."""


class HPUSettings(northbridge.VendorSettings):
    """The vendor's variables that a run depends on. ``contract.toml`` names the reader of each."""

    habana_visible_modules: northbridge.Indices | None = pydantic.Field(
        default=None, description="a list of module ids, each once, with commas between, such as 0,1,2,3"
    )
    habana_visible_devices: northbridge.Indices | Literal["all"] | None = pydantic.Field(
        default=None, description="'all', or a list of indices, each once, with commas between"
    )
    hls_module_id: int | None = pydantic.Field(default=None, ge=0, description="one module id, a whole number from 0")
    pt_hpu_lazy_mode: Literal["0", "1", None] = pydantic.Field(default=None, description="0 (eager) or 1 (lazy)")
    pt_hpu_enable_lazy_collectives: bool = pydantic.Field(default=False, description="true or false")
    pt_hpu_gpu_migration: bool = pydantic.Field(default=False, description="0 or 1")
    habana_profile: str | None = pydantic.Field(default=None, description="unset or profile_api_light")
    pt_hpu_emulate_distributed: bool = pydantic.Field(default=False, description="0 or 1")

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Self:
        source = os.environ if environ is None else environ
        if source.get("PT_HPU_LAZY_MODE") == "":
            raise northbridge.SettingsError(
                "PT_HPU_LAZY_MODE='' means lazy mode to the vendor. Fix: unset it, or write 0 (eager) or 1 (lazy)",
                variable="PT_HPU_LAZY_MODE",
            )
        return super().read(source)

    def reject_misleading_switches(self) -> None:
        """Raise :class:`northbridge.SettingsError` for a switch that makes a run differ from what it claims."""
        if self.pt_hpu_gpu_migration:
            raise northbridge.SettingsError(
                "PT_HPU_GPU_MIGRATION redirects torch.cuda to the HPU, and 'nccl' to 'hccl'. Fix: unset it",
                variable="PT_HPU_GPU_MIGRATION",
            )
        if self.pt_hpu_emulate_distributed:
            raise northbridge.SettingsError(
                "PT_HPU_EMULATE_DISTRIBUTED skips collectives. Fix: unset it",
                variable="PT_HPU_EMULATE_DISTRIBUTED",
            )

    def reject_other_profiles(self) -> None:
        """Raise :class:`northbridge.SettingsError` if HABANA_PROFILE is not for torch's profiler."""
        if self.habana_profile not in (None, "profile_api_light"):
            raise northbridge.SettingsError(
                f"HABANA_PROFILE={self.habana_profile!r} is not for torch's profiler. Fix: unset it, or write"
                " profile_api_light",
                variable="HABANA_PROFILE",
            )

    def reject_unknown_subset(self, modules: tuple[int, ...]) -> None:
        """Raise :class:`northbridge.SettingsError` if the user chose ``modules`` that may not reach each other."""
        chosen = ",".join(map(str, sorted(modules)))
        if self.habana_visible_modules is not None and len(modules) > 1 and chosen not in KNOWN_SUBSETS:
            raise northbridge.SettingsError(
                f"HABANA_VISIBLE_MODULES={','.join(map(str, modules))!r} is not one of the vendor's sets:"
                f" {'; '.join(KNOWN_SUBSETS)}",
                variable="HABANA_VISIBLE_MODULES",
            )

    def reject_module_of_another(self, own: int, modules: tuple[int, ...], alone: bool) -> None:
        """Raise :class:`northbridge.SettingsError` if HLS_MODULE_ID is not in ``modules``, or not this rank's."""
        if self.hls_module_id not in modules or not (alone or self.hls_module_id == own):
            visible = ",".join(map(str, modules))
            raise northbridge.SettingsError(
                f"HLS_MODULE_ID={self.hls_module_id} is set, but this rank's card is module {own} of {visible}."
                " Fix: unset it",
                variable="HLS_MODULE_ID",
            )
