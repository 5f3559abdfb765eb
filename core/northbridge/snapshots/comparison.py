"""The calls of one step in two runs, each judged by the distance of all that its code can have used."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from northbridge.snapshots.distance import difference, distance, explained, floor, rounding
from northbridge.snapshots.records import ModuleCallRecord, Step, Value

Phase = Literal["weights", "batch", "forward", "gradient", "update"]
OUTSIDE = "(outside the model)"
INPUT = "the model's input"


@dataclass(frozen=True)
class Difference:
    """A tensor whose distance is beyond ``explained``."""

    phase: Phase
    path: str
    """Path of the module, or the name of the parameter or tensor."""

    sources: float
    distance: float
    explained: float
    values: tuple[Value, Value] | None = None
    calls: tuple[ModuleCallRecord, ModuleCallRecord] | None = None
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
class Sources:
    """The tensors that the code of one call can have used so far."""

    distance: float = 0.0
    floor: float = 0.0

    def use(self, distance: float, floor: float) -> None:
        self.distance, self.floor = max(self.distance, distance), max(self.floor, floor)


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

    def row(self, path: str) -> LayerRow:
        return self.rows.setdefault(path, LayerRow(path))

    def pairs(self, kind: str) -> Iterator[tuple[str, Value, Value]]:
        for name, value in self.first.named[kind].items():
            if name in self.second.named[kind]:
                yield name, value, self.second.named[kind][name]

    def largest(self, what: Literal["forward", "gradient", "update"]) -> float:
        return max((getattr(each, what) for each in self.rows.values()), default=0.0)


def compare_weights(found: StepComparison, before: StepComparison | None) -> None:
    scales: dict[str, float] = defaultdict(float)
    for name, value in found.first.named["weight"].items():
        scales[name.rpartition(".")[0]] = math.hypot(scales[name.rpartition(".")[0]], value.norm)
    for name, mine, other in found.pairs("weight"):
        apart = found.weights[name] = difference(mine, other)
        most = floor((mine.dtype, other.dtype)) * max(mine.norm, other.norm)
        if before is not None:
            if found.after_gap:
                continue
            most += 2 * before.weights.get(name, 0.0)
            if name in before.updates:
                most += 2 * before.updates[name]
            else:  # a buffer, of which a mean may be almost zero: its module's others have the scale
                scale = scales[name.rpartition(".")[0]]
                most += explained(before.largest("forward"), floor((mine.dtype, other.dtype))) * scale
        if apart > most:
            scale = max(mine.norm, other.norm) or 1.0
            found.findings.append(Difference("weights", name, 0.0, apart / scale, most / scale, (mine, other)))


class Forward:
    """The calls of a step in the order of execution, each judged by what its code can have used."""

    def __init__(self, found: StepComparison) -> None:
        self.found = found
        self.first: list[ModuleCallRecord] = sorted(found.first.calls.values(), key=lambda call: call.number)
        self.second: dict[tuple[str, int], ModuleCallRecord] = found.second.calls
        self.frames: dict[int, Sources] = {-1: Sources()}
        self.values: dict[int, int] = {}
        """The second run's number of each value of the first run's."""

        self.distances: dict[int, float] = {}
        self.input_distances: dict[int, float] = {}
        """The distance of each call's inputs."""

        self.matched: dict[int, tuple[ModuleCallRecord, ModuleCallRecord]] = {}
        self.own: dict[str, list[str]] = defaultdict(list)
        for name in found.weights:
            path = name.rpartition(".")[0]
            self.own[path].append(name)
        self.has_batch: bool = bool(found.first.named["batch"] and found.second.named["batch"])
        for _, mine, other in found.pairs("batch"):
            self.frames[-1].use(distance(mine, other), rounding(mine, other))

    def compare(self) -> None:
        open_calls: list[ModuleCallRecord] = []
        inner: dict[int, list[ModuleCallRecord]] = defaultdict(list)
        for call in self.first:
            inner[call.inside].append(call)
        nearest = {-1: -1}  # the call itself, or that around it, if it has a counterpart
        for call in self.first:
            around = nearest[call.number] = nearest.get(call.inside, -1)
            while open_calls and open_calls[-1].number != around:
                self._end(open_calls.pop())
            other = self.second.get((call.path, call.call))
            if other is None:
                self._note_unmatched(call, inner[call.inside])
                continue
            nearest[call.number] = call.number
            kept = call.model_copy(update={"inside": around})
            self.matched[call.number] = kept, other
            self._begin(kept, other, is_leaf=not inner[call.number])
            open_calls.append(kept)
        while open_calls:
            self._end(open_calls.pop())

    def weights_of(self, path: str, *, below: bool) -> float:
        """Return the distance of a module's parameters and buffers, of all together."""
        names = [*self.own[path]]
        if below:
            prefix = f"{path}." if path else ""
            names += [each for owner, inside in self.own.items() if owner.startswith(prefix) for each in inside]
        norms = [self.found.first.named["weight"][name].norm for name in names]
        whole, apart = math.hypot(*norms), math.hypot(*(self.found.weights[name] for name in names))
        return apart / whole if whole else float(apart > 0)

    def _note_unmatched(self, call: ModuleCallRecord, beside: list[ModuleCallRecord]) -> None:
        self.found.unmatched += 1
        around = self.matched.get(call.inside)
        # Compiled, captured and checkpointed modules call none of their parts.
        if around is not None and any((each.path, each.call) in self.second for each in beside):
            detail = "it is called in A only"
            self.found.findings.append(Difference("forward", call.path, 0.0, math.inf, 0.0, None, None, detail))

    def _pairs(
        self, call: ModuleCallRecord, other: ModuleCallRecord, kind: Literal["inputs", "outputs"]
    ) -> tuple[float, float]:
        """Return the largest distance of the tensors, and the floor of their dtypes."""
        largest, most = 0.0, floor((call.autocast, other.autocast))
        mine, others = getattr(call, kind), getattr(other, kind)
        for one, two in zip(mine, others, strict=False):
            first, second = self.found.first.values[one], self.found.second.values[two]
            self.values.setdefault(one, two)
            self.distances[one] = distance(first, second)
            largest = max(largest, self.distances[one])
            most = max(most, rounding(first, second))
        return (largest if len(mine) == len(others) else math.inf), most

    def _worst(
        self, call: ModuleCallRecord, other: ModuleCallRecord, kind: Literal["inputs", "outputs"]
    ) -> tuple[Value, Value] | None:
        pairs = list(zip(getattr(call, kind), getattr(other, kind), strict=False))
        one, two = max(pairs, key=lambda pair: self.distances[pair[0]], default=(-1, -1))
        return (self.found.first.values[one], self.found.second.values[two]) if one >= 0 else None

    def _begin(self, call: ModuleCallRecord, other: ModuleCallRecord, *, is_leaf: bool) -> None:
        around = self.frames[call.inside]
        apart, most = self._pairs(call, other, "inputs")
        allowed = explained(around.distance, max(most, around.floor), after_gap=self.found.after_gap)
        if apart > allowed:
            values = self._worst(call, other, "inputs")
            if call.inside < 0 and not self.has_batch:
                finding = Difference("batch", INPUT, 0.0, apart, allowed, values, (call, other))
            else:
                outer = self.matched.get(call.inside)
                path = call.path if outer is None else outer[0].path
                detail = f"in its own code, before {call.path}" if outer else f"before {call.path or 'the model'}"
                sources = around.distance
                path = path if outer else OUTSIDE
                finding = Difference("forward", path, sources, apart, allowed, values, outer or (call, other), detail)
            self.found.findings.append(finding)
        self.input_distances[call.number] = apart
        frame = self.frames[call.number] = Sources(apart, most)
        frame.use(self.weights_of(call.path, below=is_leaf), 0.0)

    def _end(self, call: ModuleCallRecord) -> None:
        call, other = self.matched[call.number]
        frame = self.frames[call.number]
        apart, most = self._pairs(call, other, "outputs")
        allowed = explained(frame.distance, max(most, frame.floor), after_gap=self.found.after_gap)
        values = self._worst(call, other, "outputs")
        if apart > allowed and not (values and floor((values[0].dtype,)) == 0 and frame.distance > 0):
            finding = Difference(
                "forward", call.path, self.input_distances[call.number], apart, allowed, values, (call, other)
            )
            self.found.findings.append(finding)
        self.frames[call.inside].use(apart, most)
        row = self.found.row(call.path)
        row.forward = max(row.forward, apart)
        if values:
            row.dtypes = values[0].dtype, values[1].dtype
