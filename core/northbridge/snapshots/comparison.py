"""The calls of one step in two runs, each judged by the distance of all that its code can have used."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from statistics import pstdev
from typing import Literal

from northbridge.snapshots.distance import difference, distance, explained, floor, rounding
from northbridge.snapshots.records import ModuleCallRecord, Step, Value

Phase = Literal["weights", "batch", "forward", "gradient", "update"]
Kind = Literal["forward", "gradient", "update"]
OUTSIDE = "(outside the model)"
INPUT = "the model's input"
_OUTSIDE = ModuleCallRecord(path=OUTSIDE, call=0, number=-1, inside=-1, of="", training=False)


@dataclass
class Sources:
    """The largest distance of the tensors that a code can have used so far, and the floor of their dtypes."""

    distance: float = 0.0
    floor: float = 0.0

    def use(self, distance: float, floor: float = 0.0) -> None:
        self.distance, self.floor = max(self.distance, distance), max(self.floor, floor)


@dataclass(eq=False)
class PairedCall:
    """A call that both runs made; ``around`` is the nearest such call that it is inside of."""

    first: ModuleCallRecord
    second: ModuleCallRecord
    around: PairedCall | None
    sources: Sources = field(default_factory=Sources)


@dataclass(frozen=True)
class Difference:
    """A tensor whose distance is beyond what rounding explains."""

    phase: Phase
    path: str
    """Path of the module, or the name of the parameter or tensor."""

    sources: float
    distance: float
    values: tuple[Value, Value] | None = None
    call: PairedCall | None = None
    detail: str = ""


@dataclass
class LayerRow:
    """The largest distances of one module in one step."""

    path: str
    forward: float = 0.0
    gradient: float = 0.0
    update: float = 0.0
    dtypes: tuple[str, str] = ("", "")


@dataclass
class StepComparison:
    """One step of two ranks: its findings in the order of execution, and the distances of each module."""

    first: Step
    second: Step
    after_gap: bool
    findings: list[Difference] = field(default_factory=list)
    rows: dict[str, LayerRow] = field(default_factory=dict)
    unmatched: int = 0
    weights: dict[str, float] = field(default_factory=dict)
    """Difference of each parameter and buffer before the step."""

    updates: dict[str, float] = field(default_factory=dict)
    """Difference of each update."""

    @cached_property
    def matrices(self) -> set[str]:
        """The modules that have a weight of two or more dimensions."""
        return {owner_of(name) for name, value in self.first.named["weight"].items() if len(value.shape) > 1}

    def widen(self, path: str, kind: Kind, apart: float) -> LayerRow:
        """Count a distance of a module."""
        row = self.rows.setdefault(path, LayerRow(path))
        setattr(row, kind, max(getattr(row, kind), apart))
        return row

    def pairs(self, kind: str) -> Iterator[tuple[str, Value, Value]]:
        for name, value in self.first.named[kind].items():
            if name in self.second.named[kind]:
                yield name, value, self.second.named[kind][name]

    def largest(self, kind: Kind) -> float:
        return max((getattr(each, kind) for each in self.rows.values()), default=0.0)

    def explained(self, sources: Sources, floor: float = 0.0) -> float:
        """Return the distance that rounding explains of a result from ``sources``."""
        return explained(sources.distance, max(sources.floor, floor), after_gap=self.after_gap)


def owner_of(name: str) -> str:
    """Return the path of the module that has the parameter or buffer."""
    return name.rpartition(".")[0]


def compare_weights(found: StepComparison, before: StepComparison | None) -> None:
    grown = before.largest("forward") if before is not None else 0.0
    scales: dict[str, float] = defaultdict(float)
    for name, value in found.first.named["weight"].items():
        scales[owner_of(name)] = math.hypot(scales[owner_of(name)], value.norm)
    for name, mine, other in found.pairs("weight"):
        apart = found.weights[name] = difference(mine, other)
        least = floor((mine.dtype, other.dtype))
        most, scale = least * max(mine.norm, other.norm), max(mine.norm, other.norm) or 1.0
        if before is not None:
            # A buffer has no update, and may be a mean that is almost zero: its module's others have the scale.
            buffer = explained(grown, least) * scales[owner_of(name)]
            most += 2 * before.weights.get(name, 0.0) + (2 * before.updates[name] if name in before.updates else buffer)
        if apart > most and not found.after_gap:
            found.findings.append(Difference("weights", name, 0.0, apart / scale, (mine, other)))


class WeightSums:
    """Norms, differences, and differences of biases in one place, of each module's parameters and buffers together.

    Those of the modules in it count too, unless they are ``own`` alone.
    """

    def __init__(self, found: StepComparison, *, own: bool = False) -> None:
        self.norms: defaultdict[str, float] = defaultdict(float)
        self.apart: defaultdict[str, float] = defaultdict(float)
        self.biases: defaultdict[str, float] = defaultdict(float)
        for name, apart in found.weights.items():
            value, path = found.first.named["weight"][name], owner_of(name)
            of_place = apart / math.sqrt(value.size) if name.endswith("bias") and value.size else 0.0
            while True:
                self.norms[path] = math.hypot(self.norms[path], value.norm)
                self.apart[path] = math.hypot(self.apart[path], apart)
                self.biases[path] = math.hypot(self.biases[path], of_place)
                if own or not path:
                    break
                path = owner_of(path)

    def distance(self, path: str) -> float:
        """Return the distance of the weights of the module at ``path``."""
        whole, apart = self.norms[path], self.apart[path]
        return apart / whole if whole else float(apart > 0)


class Forward:
    """The calls of a step in the order of execution, each judged by what its code can have used."""

    def __init__(self, found: StepComparison) -> None:
        self.found: StepComparison = found
        self.root: PairedCall = PairedCall(_OUTSIDE, _OUTSIDE, None)
        self.calls: list[PairedCall] = []
        self.values: dict[int, int] = {}
        """The second run's number of each value of the first run's."""

        self.distances: dict[int, float] = {}
        self.weights: WeightSums = WeightSums(found)
        self.own_weights: WeightSums = WeightSums(found, own=True)
        self._others = found.second.by_name
        self._inner: dict[int, list[ModuleCallRecord]] = defaultdict(list)
        for call in found.first.calls:
            self._inner[call.inside].append(call)
        for name, mine, other in found.pairs("batch"):
            apart, most = distance(mine, other), rounding(mine, other)
            self.root.sources.use(apart, most)
            if apart > most:
                found.findings.append(Difference("batch", f"batch[{name}]", 0.0, apart, (mine, other)))
        for call in self._inner[-1]:
            self._compare(call, self.root)

    def _weights_used(self, call: ModuleCallRecord) -> float:
        """Return the distance of the weights that a call uses: of an embedding, they may be a few rows alone."""
        apart = self._sums_of(call).distance(call.path)
        table = self.found.first.named["weight"].get(f"{call.path}.weight".lstrip("."))
        if table is None or not table.shape or "Embedding" not in call.of:
            return apart
        return apart * math.sqrt(table.shape[0])

    def _moved_by_biases(self, call: ModuleCallRecord, values: tuple[Value, Value] | None) -> float:
        """Return how far the difference of the biases alone moves an output, which may be small beside the weights."""
        if values is None or not values[0].norm:
            return 0.0
        first, _ = values
        return self._sums_of(call).biases[call.path] * math.sqrt(first.size) / first.norm

    def _sums_of(self, call: ModuleCallRecord) -> WeightSums:
        """Return the sums of a call's own weights, or of all below it if it called no module."""
        return self.own_weights if self._inner[call.number] else self.weights

    def _compare(self, call: ModuleCallRecord, around: PairedCall) -> None:
        """Compare a call, and those inside it."""
        found, inner = self.found, self._inner[call.number]
        other = self._others.get((call.path, call.call))
        if other is None:
            found.unmatched += 1
            # Compiled, captured and checkpointed modules call none of their parts.
            beside = self._inner[call.inside] if around.first.number == call.inside >= 0 else []
            if any((each.path, each.call) in self._others for each in beside):
                finding = Difference("forward", call.path, 0.0, math.inf, detail="it is called in A only")
                found.findings.append(finding)
            for each in inner:
                self._compare(each, around)
            return
        here = PairedCall(call, other, around)
        self.calls.append(here)
        given, most, values = self._distance(here, "inputs")
        if given > found.explained(around.sources, most) and not _are_chosen(values, around):
            sources, before = around.sources.distance, f"before {call.path or 'the model'}"
            if around is not self.root:
                before = f"in its own code, {before}"
                finding = Difference("forward", around.first.path, sources, given, values, around, before)
            elif found.first.named["batch"] and found.second.named["batch"]:
                finding = Difference("forward", OUTSIDE, sources, given, values, here, before)
            else:
                finding = Difference("batch", INPUT, 0.0, given, values, here)
            found.findings.append(finding)
        here.sources.use(given, most * (_cancellation(values) if "Norm" in call.of else 1.0))
        here.sources.use(self._weights_used(call))
        for each in inner:
            self._compare(each, here)
        apart, most, values = self._distance(here, "outputs")
        here.sources.use(self._moved_by_biases(call, values))
        if apart > found.explained(here.sources, most) and not _are_chosen(values, here):
            found.findings.append(Difference("forward", call.path, given, apart, values, here))
        around.sources.use(apart, most)
        row = found.widen(call.path, "forward", apart)
        if values:
            row.dtypes = values[0].dtype, values[1].dtype

    def _distance(
        self, call: PairedCall, kind: Literal["inputs", "outputs"]
    ) -> tuple[float, float, tuple[Value, Value] | None]:
        """Return the largest distance of the tensors, the floor of their dtypes, and the farthest pair."""
        mine, others = getattr(call.first, kind), getattr(call.second, kind)
        most = floor((call.first.autocast, call.second.autocast))
        pairs: list[tuple[float, tuple[Value, Value]]] = []
        for one, two in zip(mine, others, strict=False):
            pair = self.found.first.values[one], self.found.second.values[two]
            self.values.setdefault(one, two)
            self.distances[one] = distance(*pair)
            pairs.append((self.distances[one], pair))
            most = max(most, rounding(*pair))
        apart, values = max(pairs, key=lambda each: each[0], default=(0.0, None))
        if len(mine) != len(others):
            apart, values = math.inf, None
        return apart, most, values


def _are_chosen(values: tuple[Value, Value] | None, by: PairedCall) -> bool:
    """Return True for integers, such as those of argmax, of which a small distance of their sources chooses others."""
    return values is not None and floor((values[0].dtype,)) == 0 and by.sources.distance > 0


def _cancellation(values: tuple[Value, Value] | None) -> float:
    """Return how much larger a tensor is than its spread: a norm subtracts the mean, and grows the rounding by it."""
    sample = values[0].sample if values else [0.0]
    spread = pstdev(sample)
    return max(1.0, math.hypot(*sample) / math.sqrt(len(sample)) / spread) if spread else 1.0
