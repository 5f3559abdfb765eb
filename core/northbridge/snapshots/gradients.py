"""The gradients and updates of one step in two runs, in the order of the backward pass."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median

from northbridge.snapshots.comparison import Difference, Forward, PairedCall, Sources, StepComparison, owner_of
from northbridge.snapshots.distance import difference, distance, explained, floor, rounding
from northbridge.snapshots.records import Value

_LARGEST_POWER = 64  # of two, between loss scales
_AFTER_ALL = 1e12

# The part of the terms of a sum below which their rounding may be all of it.
_OF_32_BITS, _OF_16_BITS = 1e-3, 0.2

_ALIKE = 1e-2


class Gradients:
    """The gradients of the tensors between the calls and of the parameters, each judged by its sources.

    ``differences`` are those beyond rounding, each with its place in the order of the backward pass.
    """

    def __init__(self, found: StepComparison, forward: Forward) -> None:
        self.found: StepComparison = found
        self.forward: Forward = forward
        self.owners: set[str] = {*map(owner_of, found.weights)}
        self.differences: list[tuple[float, Difference]] = []
        self.places: dict[int, int] = {}
        self.distances: dict[int, float] = {}
        """The distance of the gradient of each value."""

        self.inside: dict[PairedCall, Sources] = defaultdict(Sources)
        """The gradients so far in the code of each call."""

        self.ends: dict[PairedCall, int] = {}
        """The last place in the code of each call."""

        self.takers: dict[int, list[PairedCall]] = defaultdict(list)
        self.maker: dict[int, PairedCall] = {}
        self.of_path: dict[str, list[PairedCall]] = defaultdict(list)
        for call in forward.calls:
            self.of_path[call.first.path].append(call)
            for each in {*call.first.inputs} - {*call.first.outputs}:  # a dropout with p=0 returns its input itself
                self.takers[each].append(call)
            self.maker |= dict.fromkeys({*call.first.outputs} - {*call.first.inputs}, call)
        self._compare_tensors()
        self.most: float = max((*self.distances.values(), *forward.distances.values()), default=0.0)
        for name, mine, other in found.pairs("gradient"):
            self._compare_parameter(name, mine, other)
        self._find_gradients_of_one_run()
        found.findings += [finding for _, finding in sorted(self.differences, key=lambda pair: pair[0])]

    def _compare_tensors(self) -> None:
        first, second = self.found.first.flows, self.found.second.flows
        known = self.forward.values
        pairs = [(of, mine, second[known[of]]) for of, mine in first.items() if known.get(of) in second]
        scale = _loss_scale(pairs)
        for of, mine, other in pairs:
            self._compare_tensor(of, mine, other if scale == 1 else other.scaled(1 / scale))

    def _compare_tensor(self, of: int, mine: Value, other: Value) -> None:
        place = self.places[of] = len(self.places)
        apart = self.distances[of] = distance(mine, other)
        maker, takers = self.maker.get(of), self.takers[of]
        root = self.forward.root
        home = (maker or next(iter(takers), root)).around or root
        while home.around and of in home.first.outputs:  # what a block returns is used outside of it
            home = home.around
        casts = [each.autocast for call in takers for each in (call.first, call.second)]
        sources = Sources(self.forward.distances.get(of, 0.0), rounding(mine, other, *casts))
        for used in (self.inside[home], home.sources, *(call.sources for call in takers)):
            sources.use(used.distance, used.floor)
        for each in {each for call in (home, *takers) for each in call.first.outputs} - {of}:
            sources.use(self.distances.get(each, 0.0))
        # The modules that took the tensor, without those that passed it on to one inside them.
        outer = {call.around for call in takers}
        innermost = [each for each in takers if each not in outer]
        allowed = self.found.explained(sources)
        if not any(call.first.path in self.owners for call in innermost):
            # Rounding decides on which side of the kink of a ReLU a few numbers are.
            allowed += 3 * math.sqrt(max(call.sources.distance for call in (home, *takers)))
        if apart > allowed:
            path = " or ".join(dict.fromkeys(each.first.path for each in innermost)) or home.first.path
            after = f"after {maker.first.path or 'the model'}" if maker and not innermost else ""
            detail = f"in its own code, {after}" if after and home is not root else after
            call = innermost[0] if innermost else home
            finding = Difference("gradient", path, sources.distance, apart, (mine, other), call, detail)
            self.differences.append((place, finding))
        self.inside[home].use(apart, rounding(mine, other))
        self.ends[home] = place
        if maker:
            self.found.widen(maker.first.path, "gradient", apart)

    def _compare_parameter(self, name: str, mine: Value, other: Value) -> None:
        path = owner_of(name)
        while path and not self.of_path[path]:  # its owner is not called: a module around it uses it
            path = owner_of(path)
        calls = self.of_path[path]
        casts = [each.autocast for call in calls for each in (call.first, call.second)]
        sources, scale, when = Sources(0.0, rounding(mine, other, *casts)), 0.0, math.inf
        for call in calls:
            for used in (call.sources, self.inside[call]):
                sources.use(used.distance, used.floor)
            inputs = [self.found.first.values[each] for each in call.first.inputs]
            rms = max((each.norm / math.sqrt(each.size) for each in inputs if each.size), default=1.0)
            for each in call.first.outputs:
                if each in self.distances:
                    sources.use(self.distances[each])
                    scale = math.hypot(scale, self.found.first.flows[each].norm * max(1.0, rms))
                    when = min(when, max(self.places[each], self.ends.get(call, 0)) + 0.5)
        if not scale:  # it is called in a graph
            sources.use(self.most)
            sources.use(self.forward.weights.distance(""))
        scale *= math.sqrt(mine.size / (mine.shape[0] or 1)) if mine.shape else 1.0
        is_rounding = max(mine.norm, other.norm) < scale * (_OF_16_BITS if sources.floor > 1e-3 else _OF_32_BITS)
        # A gradient that is zero but for rounding is compared with the terms of its sum.
        apart = distance(mine, other, scale if is_rounding else 0.0)
        self.found.widen(owner_of(name), "gradient", apart)
        if apart > self.found.explained(sources):
            finding = Difference("gradient", name, sources.distance, apart, (mine, other), self._last(name))
            self.differences.append((when, finding))

    def _find_gradients_of_one_run(self) -> None:
        """Find the gradients that one run alone has, if both runs have gradients."""
        first, second = self.found.first.named["gradient"], self.found.second.named["gradient"]
        for name, value in {**first, **second}.items():
            if first and second and (name in first) != (name in second) and (value.norm or value.lost):
                detail = f"it has a gradient in {'A' if name in first else 'B'} only"
                call = self._last(name)
                finding = Difference("gradient", name, 0.0, math.inf, None, call, detail)
                self.differences.append((_AFTER_ALL - (call.first.number if call else 0), finding))

    def _last(self, name: str) -> PairedCall | None:
        return next(reversed(self.of_path[owner_of(name)]), None)


def _loss_scale(pairs: list[tuple[int, Value, Value]]) -> float:
    """Return the power of two between the runs' loss scales, of gradients that are not unscaled yet."""
    norms = next(((mine.norm, other.norm) for _, mine, other in pairs if mine.norm and other.norm), (1.0, 1.0))
    power = round(math.log2(norms[1]) - math.log2(norms[0]))
    return 2.0**power if 2 < abs(power) <= _LARGEST_POWER else 1.0


def compare_updates(found: StepComparison, before: StepComparison | None) -> None:
    gradients = {name: (mine, other) for name, mine, other in found.pairs("gradient")}
    for name, mine, other in found.pairs("update"):
        apart = found.updates[name] = difference(mine, other)
        scale = max(mine.norm, other.norm) or 1.0
        earlier = before.updates.get(name, 0.0) / scale if before is not None else 0.0
        gradient = gradients.get(name, (mine, mine))
        source = distance(*gradient)
        weights = [step.named["weight"].get(name, mine) for step in (found.first, found.second)]
        dtypes = [each.dtype for each in weights]
        absorbed = 1e-2 * floor(dtypes) * weights[0].norm / scale
        # Adam divides by the size of the gradient, and so amplifies what little of it is not rounding.
        most = explained(max(source, earlier), floor(dtypes), after_gap=True) + absorbed
        found.widen(owner_of(name), "update", min(2.0, apart / scale))
        # In steps that were not recorded, the optimizer's state drifts apart, and the weights with it.
        has_gap = found.after_gap and any(found.weights.values())
        is_far = apart / scale > most and source < 0.1 and not has_gap
        is_exact = name in gradients and not (source or earlier)
        if is_far and (is_exact or _is_beyond_signs((mine, other), gradient, most)):
            found.findings.append(Difference("update", name, source, apart / scale, (mine, other)))


def _is_beyond_signs(updates: tuple[Value, Value], gradients: tuple[Value, Value], most: float) -> bool:
    """Return True if more differs than Adam's steps by gradients that are rounding alone, which it makes whole ones."""

    def apart(one: float, two: float) -> float:
        return abs(one - two) / (max(abs(one), abs(two)) or 1.0)

    first, second = updates
    of_gradients = map(apart, *(each.sample for each in gradients))
    sample = zip(first.sample, second.sample, of_gradients, strict=True)
    usual = median([apart(one, two) for one, two, source in sample if (one or two) and source < _ALIKE] or [0.0])
    sizes = apart(first.norm, second.norm) > 0.25 or apart(first.largest, second.largest) > 0.5
    return usual > most or sizes or first.lost != second.lost
