"""What a chip claims to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal


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


LEVEL_CLAIMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "C0": (),
        "C1": ("float32", "autograd", "views", "random_numbers", "out_of_memory"),
        "C2": ("fit", "checkpoint", "resume"),
        "C3": ("sum_all_reduce", "broadcast", "all_gather", "barrier", "ddp_averaging"),
        "C4": (),
    }
)
"""What a chip has to claim, and to prove, for each level of the conformance suite, beside those of the levels below."""


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

    float32: Claim = field(default=unknown)
    """Tensors in float32, computed as float32."""

    autograd: Claim = field(default=unknown)
    """Gradients of what was computed on the chip, computed there."""

    views: Claim = field(default=unknown)
    """Views that share the memory of what they are a view of, of any stride."""

    random_numbers: Claim = field(default=unknown)
    """A generator for each device, whose state can be read and put back."""

    out_of_memory: Claim = field(default=unknown)
    """Full memory raises an error, after which the process and what it holds on the chip go on."""

    inference_mode: Claim = field(default=unknown)
    """What ``torch.no_grad`` computes, under ``torch.inference_mode``. A Trainer evaluates by the first if denied."""

    fit: Claim = field(default=unknown)
    """Lightning's Trainer and Fabric train on one device."""

    checkpoint: Claim = field(default=unknown)
    """What is trained is written, and opens on the chip and on the CPU."""

    resume: Claim = field(default=unknown)
    """A training that is taken up goes on as if it had never stopped."""

    sum_all_reduce: Claim = field(default=unknown)
    """Several ranks add up tensors of the chip."""

    broadcast: Claim = field(default=unknown)
    """One rank's tensor reaches all the others."""

    all_gather: Claim = field(default=unknown)
    """Every rank's tensor reaches all the others."""

    barrier: Claim = field(default=unknown)
    """Ranks wait for each other."""

    ddp_averaging: Claim = field(default=unknown)
    """Several ranks train with the average of their gradients."""

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

    sharding: Claim = field(default=unknown)
    """Models that torch's FSDP2 and tensor parallel spread over ranks."""

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
    """torch's first FSDP; what is spread by its second is :attr:`sharding`."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("simulated", "auto"):
                kind: type[object] = bool
                right = "True or False"
            else:
                kind = Claim
                right = "northbridge.yes, northbridge.unknown or northbridge.no('the reason')"
            if not isinstance(value, kind):
                raise TypeError(f"Capabilities takes for {each.name!r} {right}, found {value!r}")

    @classmethod
    def of_level(cls, level: Literal["C1", "C2", "C3", "C4"], **others: Any) -> Capabilities:
        """Return a chip's claims: ``yes`` to all that ``level`` and the levels below it ask for, and ``others``.

        Raises :class:`ValueError` where there is no such level.
        """
        if level not in LEVEL_CLAIMS:
            raise ValueError(f"no level of the conformance suite is called {level!r}; found {', '.join(LEVEL_CLAIMS)}")
        levels = list(LEVEL_CLAIMS)
        asked = levels[: levels.index(level) + 1]
        claimed: dict[str, Any] = {name: yes for each in asked for name in LEVEL_CLAIMS[each]}
        return cls(**claimed | others)

    def claims(self) -> dict[str, Claim]:
        """Return every claim by its name."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in values if isinstance(value, Claim)}
