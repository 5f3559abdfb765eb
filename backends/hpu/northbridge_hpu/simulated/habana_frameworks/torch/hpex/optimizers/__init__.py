"""The names of ``habana_frameworks.torch.hpex.optimizers``."""

from __future__ import annotations

from northbridge_hpu.simulated.fused.adamw import FusedAdamW as FusedAdamW
from northbridge_hpu.simulated.fused.lamb import FusedLamb as FusedLamb
from northbridge_hpu.simulated.fused.sgd import (
    FusedAdagrad as FusedAdagrad,
    FusedLars as FusedLars,
    FusedResourceApplyMomentum as FusedResourceApplyMomentum,
    FusedSGD as FusedSGD,
)
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
