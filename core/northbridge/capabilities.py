"""What a chip claims to do."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal


@dataclass(frozen=True)
class Claim:
    """One answer about a chip, with the reason where it is not a plain yes."""

    answer: Literal["yes", "no", "unknown"]
    reason: str = ""

    def __post_init__(self) -> None:
        if self.answer == "no" and not self.reason:
            raise ValueError("a claim of 'no' needs a reason: the user is shown it")

    @property
    def denied(self) -> bool:
        """Whether the chip says no. An unknown is tried, and fails loudly where it fails."""
        return self.answer == "no"


yes = Claim("yes")
unknown = Claim("unknown")
not_driven = Claim("unknown", "Northbridge does not drive it yet")


def no(reason: str) -> Claim:
    """Return a denial; ``reason`` ends the sentence "acme cannot do this: …"."""
    return Claim("no", reason)


@dataclass(frozen=True)
class Capabilities:
    """Say what a chip can do, before anything is built.

    ``simulated`` and ``auto`` are facts. The rest are claims, ``unknown`` until the vendor says otherwise. The
    connector reads them before anything is built, so that a denied precision or strategy is refused before training.
    """

    simulated: bool = False
    """Host memory poses as the chip. Every run says so, and ``auto`` never picks it by itself."""

    auto: bool = True
    """Whether ``accelerator="auto"`` may pick this chip where its hardware is present."""

    bfloat16: Claim = field(default=unknown)
    """Tensors and autocast in bfloat16."""

    float16: Claim = field(default=unknown)
    """Tensors and autocast in float16, with a gradient scaler on the chip."""

    float64: Claim = field(default=unknown)
    """Tensors in float64, computed as float64."""

    int64: Claim = field(default=unknown)
    """Tensors in int64, held and computed as int64."""

    float32_convolutions: Claim = field(default=unknown)
    """Convolutions of float32 tensors, computed in float32. Where it is denied, a run is warned."""

    bfloat16_range: Claim = field(default=unknown)
    """Matrix products of bfloat16 tensors, with bfloat16's range. Where it is denied, a run is warned."""

    sync_batchnorm: Claim = field(default=unknown)
    """Batch norm over the batches of all ranks, by a layer of Northbridge's that takes sums and an all-gather."""

    fork: Claim = field(default=unknown)
    """Ranks forked from a process that has loaded the vendor's software and not touched a card."""

    float8: Claim = field(default=not_driven)
    """Matrix products in float8."""

    graphs: Claim = field(default=not_driven)
    """Steps that are captured once as a graph and replayed."""

    compile: Claim = field(default=not_driven)
    """``torch.compile`` with the vendor's own compiler."""

    fused_optimizers: Claim = field(default=not_driven)
    """Optimizers whose step is one kernel of the vendor's."""

    profiler: Claim = field(default=unknown)
    """The chip's activity in Lightning's ``PyTorchProfiler``, as torch's profiler records it."""

    data_loaders: Claim = field(default=not_driven)
    """Loaders of the vendor's that decode on the chip."""

    deepspeed: Claim = field(default=not_driven)
    """DeepSpeed's sharded training."""

    fsdp: Claim = field(default=not_driven)
    """torch's fully sharded training."""

    def claims(self) -> dict[str, Claim]:
        """Return every claim by its name."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in values if isinstance(value, Claim)}
