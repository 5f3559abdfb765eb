"""Names of lightning-Teco for a Trainer: the accelerator and its strategies."""

from __future__ import annotations

import warnings
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import northbridge

# As the import of lightning-Teco did: from here on torch.device("sdaa") is a device. Without Teco's software, beside
# another chip in this process, or switched off, the names are of use all the same, for isinstance.
with suppress(northbridge.SoftwareMissingError, northbridge.DeviceTypeTakenError, northbridge.BackendDisabledError):
    northbridge.load("sdaa")


class SDAAAccelerator(northbridge.AcceleratorName, backend="sdaa"):
    """The accelerator for Teco's chips: ``accelerator="sdaa"``. Its class methods acquire no device."""

    @staticmethod
    def get_device_name() -> str:
        """Return the cards' product name, as ``teco-smi`` prints it."""
        return northbridge.get("sdaa").device.label(0)


class SDAADDPStrategy(northbridge.DDPStrategyName, backend="sdaa"):
    """The DDP strategy over TCCL: ``strategy="ddp_sdaa"``. It averages gradients."""


class MisspeltSDAADDPStrategy(SDAADDPStrategy, backend="sdaa"):
    """The DDP strategy under the misspelt name that lightning-Teco registered: ``strategy="dpp_sdaa"``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn("strategy='dpp_sdaa' means 'ddp_sdaa'; write that, or 'ddp'", stacklevel=2)
        super().__init__(*args, **kwargs)


_WORDS = {
    **northbridge.PrecisionName.words,
    **dict.fromkeys(("fp32", "fp32-true"), "32-true"),
    **dict.fromkeys(("fp16", "fp16-mixed"), "16-mixed"),
}
"""The accepted values of ``precision``: Lightning's, and the further ones of lightning-Teco."""


class SDAAPrecisionPlugin(northbridge.PrecisionName, backend="sdaa"):
    """A precision: "16-mixed" has the gradient scaler that lightning-Teco lacks, and a run refuses "fp8"."""

    words = MappingProxyType({**_WORDS, "fp8": "transformer-engine"})


class SDAADeepSpeedStrategy(northbridge.DeepSpeedStrategyName, backend="sdaa"):
    """DeepSpeed's ZeRO: ``strategy="sdaa_deepspeed"``, ``"sdaa_deepspeed_stage_3"`` and so on."""


class SDAADeepSpeedPrecisionPlugin(northbridge.DeepSpeedPrecisionName, backend="sdaa"):
    """A precision of a run with DeepSpeed: ``precision="bf16-mixed"``."""

    words = MappingProxyType(_WORDS)


class SDAAFSDPStrategy(northbridge.FSDPStrategyName, backend="sdaa"):
    """Torch's first FSDP over TCCL: ``strategy="fsdp"``. It trains in 32-true unless a precision is given."""


class SDAAFSDPPrecision(northbridge.FSDPPrecisionName, backend="sdaa"):
    """A precision of FSDP: ``precision="bf16-mixed"``."""

    words = MappingProxyType({word: meant for word, meant in _WORDS.items() if meant != "64-true"})


class SDAACheckpointIO(northbridge.CheckpointIOName, backend="sdaa"):
    """Default checkpoint plugin of every strategy on the chip."""


class SDAAProfiler(northbridge.ProfilerName, backend="sdaa"):
    """Lightning's PyTorchProfiler with the chip's events: ``profiler="pytorch"``."""


class SingleSDAAStrategy(northbridge.SingleDeviceStrategyName, backend="sdaa"):
    """The strategy for one device: ``strategy="single_sdaa"``."""
