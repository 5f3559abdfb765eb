"""The gradients and updates of one step in two runs, in the order of the backward pass."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median

from northbridge.snapshots.comparison import OUTSIDE, Difference, Forward, Sources, StepComparison
from northbridge.snapshots.distance import difference, distance, explained, floor, rounding
from northbridge.snapshots.records import ModuleCallRecord, Value

_LARGEST_POWER = 64  # of two, between loss scales


def compare_gradients(found: StepComparison, forward: Forward) -> None:
    """Compare the gradients of tensors and of parameters, in the order of the backward pass."""
    flows = Flows(found, forward)
    at: list[tuple[float, Difference]] = flows.compare()
    for name, mine, other in found.pairs("gradient"):
        owner = name.rpartition(".")[0]
        sources, most, scale, when = flows.sources_of(owner)
        scale *= math.sqrt(mine.size / (mine.shape[0] or 1)) if mine.shape else 1.0
        apart, own = distance(mine, other, scale), distance(mine, other)
        row = found.row(owner)
        row.gradient = max(row.gradient, apart)
        casts = [each.autocast for pair in flows.of_path[owner] for each in pair]
        most = max(most, rounding(mine, other, *casts))
        allowed = explained(sources, most, after_gap=found.after_gap)
        if min(apart, own) > allowed:
            at.append((when, Difference("gradient", name, sources, apart, allowed, (mine, other), flows.last(owner))))
    at += [(math.inf, finding) for finding in _find_gradients_of_one_run(found, flows)]
    found.findings += [finding for _, finding in sorted(at, key=lambda pair: pair[0])]


def _find_gradients_of_one_run(found: StepComparison, flows: Flows) -> list[Difference]:
    """Return the gradients that one run alone has, in the order of the backward pass, if both runs have gradients."""
    runs = {run: step.named["gradient"] for run, step in (("A", found.first), ("B", found.second))}
    alone: list[tuple[float, Difference]] = []
    if not all(runs.values()):
        return []
    for name, value in {**runs["A"], **runs["B"]}.items():
        owners = [run for run, gradients in runs.items() if name in gradients]
        if len(owners) == 1 and (value.norm or value.lost):
            calls = flows.last(name.rpartition(".")[0])
            finding = Difference(
                "gradient", name, 0.0, math.inf, 0.0, None, calls, f"it has a gradient in {owners[0]} only"
            )
            alone.append((-calls[0].number if calls else math.inf, finding))
    return [finding for _, finding in sorted(alone, key=lambda pair: pair[0])]


class Flows:
    """The gradients of the tensors between the calls, each judged by those that it is computed from."""

    def __init__(self, found: StepComparison, forward: Forward) -> None:
        self.found: StepComparison = found
        self.forward: Forward = forward
        self.order: dict[int, int] = {}
        self.distances: dict[int, float] = {}
        self.takers: dict[int, list[ModuleCallRecord]] = defaultdict(list)
        self.maker: dict[int, ModuleCallRecord] = {}
        self.of_path: dict[str, list[tuple[ModuleCallRecord, ModuleCallRecord]]] = defaultdict(list)
        for call, other in forward.matched.values():
            self.of_path[call.path].append((call, other))
            for each in {*call.inputs} - {*call.outputs}:  # a dropout with p=0 returns its input itself
                self.takers[each].append(call)
            for each in call.outputs:
                if each not in call.inputs and (each not in self.maker or self.maker[each].number < call.number):
                    self.maker[each] = call
        self.scale: float = self._loss_scale()

    def _loss_scale(self) -> float:
        """Return the power of two between the runs' loss scales, of gradients that are not unscaled yet."""
        for of, value in self.found.first.flows.items():
            other = self._other(of)
            mine = self.found.first.values[value]
            if other is not None and mine.norm and other.norm:
                power = round(math.log2(other.norm) - math.log2(mine.norm))
                return 2.0**power if 2 < abs(power) <= _LARGEST_POWER else 1.0
        return 1.0

    def _other(self, of: int) -> Value | None:
        number = self.found.second.flows.get(self.forward.values.get(of, -1))
        return None if number is None else self.found.second.values[number]

    def compare(self) -> list[tuple[float, Difference]]:
        at: list[tuple[float, Difference]] = []
        inside: dict[int, Sources] = defaultdict(Sources)
        for order, (of, value) in enumerate(self.found.first.flows.items()):
            mine, other = self.found.first.values[value], self._other(of)
            if other is None:
                continue
            if self.scale != 1.0:
                other = other.scaled(1 / self.scale)
            self.order[of] = order
            apart = self.distances[of] = distance(mine, other)
            maker, takers = self.maker.get(of), self.takers[of]
            home = maker.inside if maker else takers[0].inside if takers else -1
            around = Sources(inside[home].distance, inside[home].floor)
            around.use(self.forward.frames[home].distance, self.forward.frames[home].floor)
            casts = [each.autocast for call in takers for each in self.forward.matched[call.number]]
            around.use(self.forward.distances.get(of, 0.0), rounding(mine, other, *casts))
            for call in takers:
                frame = self.forward.frames[call.number]
                around.use(frame.distance, frame.floor)
                for each in call.outputs:
                    around.use(self.distances.get(each, 0.0), 0.0)
            outer = self.forward.matched.get(home)
            for each in outer[0].outputs if outer else ():
                around.use(self.distances.get(each, 0.0), 0.0)
            allowed = explained(around.distance, around.floor, after_gap=self.found.after_gap)
            if all(not self.forward.own[call.path] for call in self._innermost(of)):
                # Rounding decides on which side of the kink of a ReLU a few numbers are.
                kinks = max((self.forward.frames[call.number].distance for call in takers), default=0.0)
                allowed += 3 * math.sqrt(max(kinks, self.forward.frames[home].distance))
            if apart > allowed:
                at.append((order, self._blame(of, outer, around, apart, allowed, (mine, other))))
            inside[home].use(apart, rounding(mine, other))
            if maker:
                row = self.found.row(maker.path)
                row.gradient = max(row.gradient, apart)
        return at

    def _innermost(self, of: int) -> list[ModuleCallRecord]:
        takers = self.takers[of]
        return [each for each in takers if not any(other.inside == each.number for other in takers)]

    def _blame(
        self,
        of: int,
        outer: tuple[ModuleCallRecord, ModuleCallRecord] | None,
        around: Sources,
        apart: float,
        allowed: float,
        values: tuple[Value, Value],
    ) -> Difference:
        """Name the modules that took the tensor, or the code around if no module did."""
        innermost = self._innermost(of)
        calls = self.forward.matched[innermost[0].number] if innermost else outer
        path = " or ".join(dict.fromkeys(each.path for each in innermost)) or (outer[0].path if outer else OUTSIDE)
        maker = self.maker.get(of)
        detail = "" if innermost else f"in its own code, after {maker.path or 'the model'}" if maker else ""
        return Difference("gradient", path, around.distance, apart, allowed, values, calls, detail)

    def sources_of(self, owner: str) -> tuple[float, float, float, float]:
        """Return what the gradient of ``owner``'s parameter comes from: distance, floor, scale of its sum, and when."""
        around, scale, when = Sources(), 0.0, math.inf
        for call, _ in self.of_path[owner]:
            frame = self.forward.frames[call.number]
            around.use(frame.distance, frame.floor)
            inputs = [self.found.first.values[each] for each in call.inputs]
            rms = max((each.norm / math.sqrt(each.size) for each in inputs if each.size), default=1.0)
            for each in call.outputs:
                if each in self.distances:
                    around.use(self.distances[each], 0.0)
                    flow = self.found.first.values[self.found.first.flows[each]]
                    scale = math.hypot(scale, flow.norm * max(1.0, rms))
                    when = min(when, self.order[each] + 0.5)
        if not scale:  # its owner is not called, or is called in a graph
            around.use(max(self.distances.values(), default=0.0), 0.0)
            around.use(max(self.forward.distances.values(), default=0.0), 0.0)
            around.use(self.forward.weights_of("", below=True), 0.0)
        return around.distance, around.floor, scale, when

    def last(self, owner: str) -> tuple[ModuleCallRecord, ModuleCallRecord] | None:
        return self.of_path[owner][-1] if self.of_path[owner] else None


def compare_updates(found: StepComparison, before: StepComparison | None) -> None:
    gradients = {name: distance(mine, other) for name, mine, other in found.pairs("gradient")}
    for name, mine, other in found.pairs("update"):
        owner = name.rpartition(".")[0]
        apart = difference(mine, other)
        found.updates[name] = apart
        scale = max(mine.norm, other.norm) or 1.0
        earlier = before.updates.get(name, 0.0) / scale if before is not None else 0.0
        source = gradients.get(name, 0.0)
        weight = found.first.named["weight"].get(name, mine)
        absorbed = 1e-2 * floor((weight.dtype,)) * weight.norm / scale
        # Adam divides by the size of the gradient, and so amplifies what little of it is not rounding.
        most = explained(max(source, earlier), floor((weight.dtype, other.dtype)), after_gap=True) + absorbed
        row = found.row(owner)
        row.update = max(row.update, min(2.0, apart / scale))
        if apart / scale > most and not found.after_gap and source < 0.1 and _is_beyond_signs(mine, other, most):
            found.findings.append(Difference("update", name, source, apart / scale, most, (mine, other)))


def _is_beyond_signs(first: Value, second: Value, most: float) -> bool:
    """Return True if more than some signs differ: Adam makes a whole step of a gradient that is rounding alone."""
    pairs = [(one, two) for one, two in zip(first.samples, second.samples, strict=True) if one or two]
    usual = median([abs(one - two) / max(abs(one), abs(two)) for one, two in pairs] or [0.0])
    largest = abs(first.largest - second.largest) / (max(first.largest, second.largest) or 1.0)
    norms = abs(first.norm - second.norm) / (max(first.norm, second.norm) or 1.0)
    return usual > most or norms > 0.25 or largest > 0.5 or first.lost != second.lost
