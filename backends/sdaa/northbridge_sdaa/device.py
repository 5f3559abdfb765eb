"""A core group of a Teco card, as torch sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import northbridge
from northbridge_sdaa.cards import standing
from northbridge_sdaa.settings import SDAASettings

if TYPE_CHECKING:
    import torch


class SDAADevice(northbridge.Device):
    """A core group with memory of its own: a part of a card, usually a quarter."""

    type = "sdaa"

    def label(self, index: int) -> str:
        # Not get_device_name, which is known to return a device file.
        table = standing()
        return table.rows[0].name if table is not None and table.rows else "core group of a Teco card"

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        # Not read from torch.sdaa: only a plugin that renames torch's spare device type must have the function.
        import torch

        return torch.float16, torch.bfloat16

    def capabilities(self, claimed: northbridge.Capabilities) -> northbridge.Capabilities:
        said = SDAASettings.read()
        exact = said.torch_sdaa_conv_use_fp32 == said.torch_sdaa_conv2d_backward_use_fp32 == "1"
        inexact = northbridge.no(
            "they are computed in float16, as far as public sources tell, which may be too little to converge;"
            " TORCH_SDAA_CONV_USE_FP32=1 and TORCH_SDAA_CONV2D_BACKWARD_USE_FP32=1 compute them in float32"
        )
        clip = "is set, which cuts" if said.torch_sdaa_bf16_clip == "1" else "cuts"
        return replace(
            claimed,
            float32_convolutions=northbridge.yes if exact else inexact,
            bfloat16_range=northbridge.no(
                "they are computed in float16, as far as public sources tell, whose numbers end at 65504;"
                f" TORCH_SDAA_BF16_CLIP=1 {clip} their inputs at 65407"
            ),
        )
