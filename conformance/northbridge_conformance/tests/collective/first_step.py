"""The first step over several ranks against one device that averages the same shards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from northbridge_conformance.figures import Figure, check
from northbridge_conformance.rank_programs import first_step
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.collective.ranks import Claims, Facts, Ranks, everybodys
from northbridge_conformance.tests.device.one_device import reject_without

ROUNDING = 2.0**-24
"""Half of float32's last digit, relative to a number: the error of one addition."""

BITS = {"float32": 2.0**-23, "ten bits": 2.0**-10, "bfloat16": 2.0**-8}
"""The relative distance of neighbouring numbers, in the precision in which a product reads its factors."""

FAULTS: dict[str, Callable[[list[float], list[float]], list[float]]] = {
    "a sum, and not the average": lambda mean, _first: [number * 2 for number in mean],
    "the first rank's own": lambda _mean, first: first,
    "a hundredth too large": lambda mean, _first: [number * 1.01 for number in mean],
}


class FirstStep(Ranks):
    """The first step over ranks is that of one device which averages the ranks' gradients in their order."""

    advice = (
        "The figure that is off names a tensor: look at the sum of the library for gradients of its size, at the dtype"
        " in which it adds them up, and at what the Collective's ddp_options() ask for."
    )
    step = "first_step"

    @pytest.fixture(params=list(first_step.DTYPES))
    def dtype(self, request: pytest.FixtureRequest) -> str:
        """The dtype inside the model."""
        return str(request.param)

    @pytest.fixture
    def steps(self, backend: str, ranks: Facts, dtype: str) -> list[dict[str, Any]]:
        """Return each rank's step."""
        reject_without(backend, dtype)
        return everybodys(ranks, dtype)

    @pytest.fixture
    def alone(self, ranks: Facts, dtype: str) -> dict[str, Any]:
        """Return the steps of one device, in two orders; its gradients must be usable as a reference."""
        (found,) = everybodys(ranks[:1], f"{dtype} alone")
        gradients = found["reference"]["gradients"]
        unusable = [name for name, mean in gradients.items() if not (all(map(math.isfinite, mean)) and any(mean))]
        assert not unusable, "on one device, these gradients are all zero, or not finite"
        return dict(found)

    @shows("ddp_averaging", "{dtype}")
    def test_gradients_are_those_of_one_device(
        self, steps: list[dict[str, Any]], alone: dict[str, Any], record_property: Callable[[str, object], None]
    ) -> None:
        check(record_property, _compare(steps, alone, "gradients"))

    @shows("ddp_averaging", "{dtype}")
    def test_updates_are_those_of_one_device(
        self, steps: list[dict[str, Any]], alone: dict[str, Any], record_property: Callable[[str, object], None]
    ) -> None:
        check(record_property, _compare(steps, alone, "updates"))

    @shows("ddp_averaging", "{dtype}")
    def test_norm_before_clipping_is_one_devices(
        self, steps: list[dict[str, Any]], alone: dict[str, Any], record_property: Callable[[str, object], None]
    ) -> None:
        right, other = alone["reference"], alone["gate"]
        figure = Figure(
            name="gradient norm before clipping",
            found=max(distance([each["norm"]], [right["norm"]]) for each in steps),
            bound=bound_of_norm(right, len(steps)),
            gate=distance([other["norm"]], [right["norm"]]),
        )
        check(record_property, [figure])

    @shows("ddp_averaging", "{dtype}")
    def test_gradients_are_near_those_in_float64(
        self,
        steps: list[dict[str, Any]],
        alone: dict[str, Any],
        dtype: str,
        claimed: Claims,
        record_property: Callable[[str, object], None],
    ) -> None:
        read = "ten bits" if dtype == "float32" and claimed["float32_products"].denied else dtype
        host, bounds = first_step.compute_on_host(len(steps)), bounds_on_host(len(steps), BITS[read])
        figures = [
            Figure(
                name=f"gradient of {name}, against float64",
                found=max(distance(each["gradients"][name], exact) for each in steps),
                bound=bounds[name],
                gate=distance(alone["gate"]["gradients"][name], alone["reference"]["gradients"][name]),
            )
            for name, exact in host["gradients"].items()
        ]
        check(record_property, figures)

    @shows("ddp_averaging", "{dtype}")
    def test_ranks_have_the_same_weights_to_the_bit(self, steps: list[dict[str, Any]]) -> None:
        assert len({each["weights"] for each in steps}) == 1

    @shows("ddp_averaging", "{dtype}")
    def test_frozen_weight_is_unchanged(self, steps: list[dict[str, Any]]) -> None:
        assert [each["frozen"] for each in steps] == [True] * len(steps)

    @shows("ddp_averaging", "{dtype}")
    def test_model_computes_in_the_dtype(self, steps: list[dict[str, Any]], dtype: str) -> None:
        assert [each["scores"] for each in steps] == [[f"torch.{dtype}"]] * len(steps)

    @shows("ddp_averaging", "{dtype}")
    @pytest.mark.parametrize("fault", FAULTS)
    def test_bound_tells_right_gradients_from(
        self, steps: list[dict[str, Any]], alone: dict[str, Any], fault: str
    ) -> None:
        right = alone["reference"]
        for name, mean in right["gradients"].items():
            wrong = FAULTS[fault](mean, alone["first shard"][name])
            assert distance(wrong, mean) > 10 * bound_of(right, name, len(steps))


def distance(found: list[float], expected: list[float]) -> float:
    """Return the largest distance of two lists of numbers, relative to the largest number of the second.

    It is infinite if a number is NaN, which max() may pass over.
    """
    distances = [abs(mine - other) for mine, other in zip(found, expected, strict=True)]
    return math.inf if any(map(math.isnan, distances)) else max(distances) / max(map(abs, expected))


def bound_of(right: dict[str, Any], name: str, ranks: int) -> float:
    """Return how far the mean of ``ranks`` gradients may be off, relative to its largest number.

    Each of ``ranks`` additions and the division rounds once, by a part of the mean size of what is added. Both sides
    round, and a library may divide first: hence four times.
    """
    largest: float = max(map(abs, right["gradients"][name]))
    size: float = right["sizes"][name]
    return 4 * (ranks + 1) * ROUNDING * size / largest


def bounds_on_host(ranks: int, off: float) -> dict[str, float]:
    """Return how far each gradient may be from that in float64 on a chip whose factors are ``off`` by so much.

    It is three times the furthest that one rounding of each number moved it in four draws, as sums are rounded more
    often than once, and the roundings of the average.
    """
    host = first_step.compute_on_host(ranks)
    draws = [first_step.compute_on_host(ranks, off, seed)["gradients"] for seed in range(4)]
    return {
        name: 3 * max(distance(each[name], exact) for each in draws) + bound_of(host, name, ranks)
        for name, exact in host["gradients"].items()
    }


def bound_of_norm(right: dict[str, Any], ranks: int) -> float:
    """Return how far the norm of the gradients may be off: as far as the worst of them."""
    return max(bound_of(right, name, ranks) for name in right["gradients"])


def _compare(steps: list[dict[str, Any]], alone: dict[str, Any], kind: str) -> Iterator[Figure]:
    right, other = alone["reference"], alone["gate"]
    for name, exact in right[kind].items():
        bound = bound_of(right, name, len(steps))
        if kind == "updates":  # the clipped gradient, and the rounding of the weight that it changes
            largest = max(map(abs, exact))
            bound += bound_of_norm(right, len(steps)) + 2 * ROUNDING * (right["largest"][name] + largest) / largest
        yield Figure(
            name=f"{kind.removesuffix('s')} of {name}",
            found=max(distance(each[kind][name], exact) for each in steps),
            bound=bound,
            gate=distance(other[kind][name], exact),
        )
