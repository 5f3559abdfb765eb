"""Claims about a chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal


@dataclass(frozen=True)
class Claim:
    """One answer about a chip, with a reason unless it is a plain yes."""

    answer: Literal["yes", "no", "unknown"]
    reason: str = ""

    def __post_init__(self) -> None:
        if self.answer == "no" and not self.reason:
            raise ValueError("a claim of 'no' needs a reason")

    @property
    def denied(self) -> bool:
        """True if the answer is ``no``. An unknown feature is tried."""
        return self.answer == "no"


yes: Claim = Claim("yes")
unknown: Claim = Claim("unknown")


def no(reason: str) -> Claim:
    """Return a claim of "no"; ``reason`` ends the sentence "acme cannot do this: …"."""
    return Claim("no", reason)


@dataclass(frozen=True)
class Within:
    """A looser bound for one operator of torch, with a reason.

    The operator's results in float32 are at most ``bound × (1 + the size of the CPU's number)`` from the CPU's.
    """

    bound: float
    reason: str

    def __post_init__(self) -> None:
        if not 0 < self.bound < 1:
            raise ValueError(
                f"Within({self.bound!r}, …): a bound is above 0 and below 1. Fix: Within(3e-4, 'the reason')"
            )
        if not self.reason:
            raise ValueError(
                f"Within({self.bound!r}, …): a bound needs a reason. Fix: Within({self.bound!r}, 'the reason')"
            )


def _claim(meaning: str, level: str = "", default: Claim = unknown, *, deniable: bool = False) -> Any:
    """Return a field for a claim. ``meaning`` is the sentence that reports show for it.

    A chip must claim it, and pass its tests, for that ``level`` of the conformance suite and those above. If it is
    ``deniable``, the chip may also deny it.
    """
    return field(default=default, metadata={"meaning": meaning, "level": level, "deniable": deniable})


FACTS = ("simulated", "auto", "rounds")
"""The fields of :class:`Capabilities` that are True or False."""

OPERATORS = "operators."
"""The beginning of the name of an operator's claim."""


@dataclass(frozen=True)
class Capabilities:
    """Claims about a chip, known before anything is built.

    ``simulated``, ``auto`` and ``rounds`` are facts, and ``operators`` is about single operators. The other fields are
    claims, mostly ``unknown`` unless the vendor sets them. The connector reads them first, so that an unsupported
    precision or strategy is an error before training.
    """

    simulated: bool = False
    """True if the chip is simulated in host memory. Every run reports it, and ``auto`` never chooses it by itself."""

    auto: bool = True
    """True if ``accelerator="auto"`` may choose this chip when its hardware is present."""

    rounds: bool = False
    """True if a simulated chip rounds otherwise than the CPU: it is compared within tolerances, as a real chip."""

    float32: Claim = _claim("float32 is computed as float32", "C1")
    autograd: Claim = _claim("gradients are computed on the chip", "C1")
    views: Claim = _claim("views share the memory of their tensor, in every layout", "C1")
    random_numbers: Claim = _claim(
        "each device has a generator, whose state can be saved and restored", "C1", deniable=True
    )
    """If ``no``, a run seeds, saves and restores the CPU's generators alone."""

    memory_stats: Claim = _claim("statistics of memory follow the tensors on each device", "C1", deniable=True)
    """If ``no``, Lightning's DeviceStatsMonitor gets an error."""

    out_of_memory: Claim = _claim("the process can continue after an out-of-memory error", "C1")
    inference_mode: Claim = _claim("torch.inference_mode gives the results of torch.no_grad")
    """If ``no``, a Trainer evaluates under ``torch.no_grad``."""

    fit: Claim = _claim("Lightning trains on one device", "C2")
    checkpoint: Claim = _claim("a checkpoint opens on the chip and on the CPU", "C2")
    resume: Claim = _claim("a resumed training continues as if it had never stopped", "C2")
    pinned_memory: Claim = _claim("a DataLoader pins the memory of its batches", "C2", deniable=True)
    sum_all_reduce: Claim = _claim("tensors of several devices are summed", "C3")
    broadcast: Claim = _claim("the tensor of one device reaches all others", "C3")
    all_gather: Claim = _claim("the tensors of all devices reach each of them", "C3")
    barrier: Claim = _claim("processes wait for each other", "C3")
    ddp_averaging: Claim = _claim("several devices train with the average of their gradients", "C3")
    bfloat16: Claim = _claim("tensors and mixed precision in bfloat16")
    float16: Claim = _claim("tensors and mixed precision in float16, with a gradient scaler")
    float64: Claim = _claim("float64 is computed as float64")
    int64: Claim = _claim("int64 is stored and computed as int64")
    float32_products: Claim = _claim("products of float32 matrices are computed with all bits of float32", default=yes)
    """If ``no``, as with TF32, ten bits of each factor count, and a run gets a warning."""

    float32_convolutions: Claim = _claim("convolutions of float32 are computed with all bits of float32")
    """If ``no``, a run gets a warning."""

    bfloat16_range: Claim = _claim("matrix products in bfloat16 have bfloat16's range")
    """If ``no``, a run gets a warning."""

    sync_batchnorm: Claim = _claim("batch norm over the batches of all devices")
    """A layer of Northbridge computes it from sums and an all-gather."""

    sharding: Claim = _claim("FSDP2 and tensor parallel spread a model over devices")
    fork: Claim = _claim("Lightning may fork processes that have loaded the vendor's software, as notebooks do")
    """Forking must only work in a process that has not used a card."""

    float8: Claim = _claim("linear layers are trained in float8")
    """If ``no``, precision="transformer-engine", Float8Precision and Float8Inference get an error."""

    graphs: Claim = _claim("steps are captured once and replayed")
    compile: Claim = _claim("torch.compile with the backend that the bridge names")
    fused_optimizers: Claim = _claim("optimizers whose step is one kernel: torch's fused=True, or the vendor's classes")
    """If ``no``, ``fused=True`` is an error in a Trainer and a Fabric."""

    profiler: Claim = _claim("the chip's work shows in Lightning's PyTorchProfiler")
    recompilation: Claim = _claim("a new shape shows as a graph that is compiled")
    """If ``no``, the callback ``RecompilationMonitor`` is refused."""

    data_loaders: Claim = _claim("the vendor's loaders decode on the chip")
    deepspeed: Claim = _claim("DeepSpeed's ZeRO spreads a training over devices")
    """Also name :attr:`Acceleration.deepspeed_accelerator`: without it, a run with DeepSpeed is an error."""

    fsdp: Claim = _claim("torch's first FSDP shards a model over devices")
    """FSDP2 is :attr:`sharding`."""

    device_checks: Claim = _claim(
        "an operation on a tensor of the chip and one of the CPU's raises an error", default=yes
    )
    """If ``no``, it gives numbers in silence, and a run gets a warning."""

    operators: Mapping[str, Claim | Within] = field(default_factory=dict, hash=False)
    """Operators that the chip lacks (``no("the reason")``) or computes less exactly (:class:`Within`), by torch's name.

    The name is that of the function that a user calls: ``lstm``, ``asin``, ``interpolate``. A denied operator raises.
    """

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "operators":
                _reject_wrong_operators(value)
                continue
            if each.name in FACTS:
                kind: type[object] = bool
                right = "True or False"
            else:
                kind = Claim
                right = "northbridge.yes, northbridge.unknown or northbridge.no('the reason')"
            if not isinstance(value, kind):
                raise TypeError(f"Capabilities({each.name}={value!r}): expected {right}")

    @classmethod
    def of_level(cls, level: Literal["C1", "C2", "C3", "C4"], **others: Any) -> Capabilities:
        """Return claims of ``yes`` for every ability that ``level`` and the levels below it require, plus ``others``.

        Raises :class:`ValueError` for an unknown level.
        """
        if level not in LEVEL_CLAIMS:
            raise ValueError(f"unknown level {level!r}; known: {', '.join(LEVEL_CLAIMS)}")
        levels = list(LEVEL_CLAIMS)
        asked = levels[: levels.index(level) + 1]
        claimed: dict[str, Any] = {name: yes for each in asked for name in LEVEL_CLAIMS[each]}
        return cls(**claimed | others)

    @property
    def exact(self) -> bool:
        """True if the chip's results are the CPU's to the bit: it is simulated, and does not round otherwise."""
        return self.simulated and not self.rounds

    def claims(self) -> dict[str, Claim]:
        """Return every claim by its name; that of an operator is called ``operators.NAME``."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        of_operators = {
            f"{OPERATORS}{name}": said
            if isinstance(said, Claim)
            else Claim("yes", f"within {said.bound:g}: {said.reason}")
            for name, said in self.operators.items()
        }
        return {name: value for name, value in values if isinstance(value, Claim)} | of_operators


def _reject_wrong_operators(operators: object) -> None:
    expected = "northbridge.no('the reason') or northbridge.Within(3e-4, 'the reason')"
    if not isinstance(operators, Mapping):
        raise TypeError(f"Capabilities(operators={operators!r}): expected a dict of operators, each with {expected}")
    for name, said in operators.items():
        denied = isinstance(said, Claim) and said.denied
        if not isinstance(name, str) or not (denied or isinstance(said, Within)):
            raise TypeError(f"Capabilities(operators={{{name!r}: {said!r}}}): expected {expected}")


LEVEL_CLAIMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        level: tuple(each.name for each in fields(Capabilities) if each.metadata.get("level") == level)
        for level in ("C0", "C1", "C2", "C3", "C4")
    }
)
"""The claims that each level of the conformance suite adds to those below it. A chip must make and pass them."""

DENIABLE: frozenset[str] = frozenset(each.name for each in fields(Capabilities) if each.metadata.get("deniable"))
"""The claims that a chip may also deny at their level, because good chips exist without these features."""
