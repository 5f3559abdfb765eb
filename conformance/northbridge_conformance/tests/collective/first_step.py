"""The first step over several ranks against one device that averages the same shards.

Later steps are not compared: from the second on, a training amplifies the roundings of right chips, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.models import Mlp, seen
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.collective.ddp_gradients import batch
from northbridge_conformance.tests.collective.ranks import Claims, Facts, Rank, Ranks, attempt, meet, results_of
from northbridge_conformance.tests.device.one_device import reject_without

FROZEN = "1.weight"
"""The parameter that gets no gradient."""

DTYPES: Mapping[str, torch.dtype | None] = {"float32": None, "bfloat16": torch.bfloat16}
"""The dtype inside the model, and that of autocast."""

RATE = 0.2
_NORM = 0.25
"""The norm to which gradients are clipped."""

Numbers = dict[str, list[float]]
"""The numbers of each tensor, by its name."""


def train_first_step(scenario: Scenario, folder: Path) -> None:
    """Report the step of this rank; rank 0 also reports that of one device, in two orders of averaging."""
    rank = meet(scenario)
    found: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        found[name] = attempt(partial(_together, rank, dtype))
        if rank.number == 0:
            found[f"{name} alone"] = attempt(partial(_in_two_orders, rank, dtype))
    write(folder, "train_first_step", rank.number, found)


def compute_on_host(ranks: int, off: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """Return the step in float64 on the CPU.

    Each weight, input and output of a layer is ``off`` by that part of itself, up or down as ``seed`` draws it.
    """
    generator = torch.Generator().manual_seed(seed)

    def move(exact: Tensor) -> Tensor:
        up = torch.randint(0, 2, exact.shape, generator=generator) * 2 - 1
        return exact.double() * (1 + off * up)

    def move_result(_layer: nn.Module, _given: Any, result: Tensor) -> Tensor:
        return move(result)

    net = _build().double()
    for layer in net:
        layer.register_forward_hook(move_result)
    with torch.no_grad():
        for each in net.parameters():
            each.copy_(move(each))
    shards = [batch(0, ranks, range(number, number + 1)) for number in range(ranks)]
    return _alone(net, [(move(images), labels) for images, labels in shards], None)


def _build() -> Mlp:
    torch.manual_seed(3)
    net = Mlp()
    net.get_parameter(FROZEN).requires_grad_(False)
    return net


def _together(rank: Rank, dtype: torch.dtype | None) -> dict[str, Any]:
    net = _build().to(rank.device)
    model = DistributedDataParallel(net, **rank.collective.ddp_options())
    _backward(model, _shard(rank, rank.number), dtype)
    return _step(net)


def _in_two_orders(rank: Rank, dtype: torch.dtype | None) -> dict[str, Any]:
    shards = [_shard(rank, number) for number in range(rank.ranks)]
    net = _build().to(rank.device)
    _backward(net, shards[0], dtype)
    return {
        "reference": _alone(_build().to(rank.device), shards, dtype),
        "gate": _alone(_build().to(rank.device), shards[::-1], dtype),
        "first shard": _numbers(_gradients(net)),
    }


def _shard(rank: Rank, number: int) -> tuple[Tensor, Tensor]:
    images, labels = batch(0, rank.ranks, range(number, number + 1))
    return images.to(rank.device), labels.to(rank.device)


def _alone(
    net: Mlp,
    shards: Sequence[tuple[Tensor, Tensor]],
    dtype: torch.dtype | None,
) -> dict[str, Any]:
    """Take the step with the mean of the shards' gradients, added up in the order of ``shards``."""
    totals: dict[str, Tensor] = {}
    sizes: dict[str, Tensor] = {}
    for shard in shards:
        net.zero_grad()
        _backward(net, shard, dtype)
        for name, slope in _gradients(net).items():
            totals[name] = totals[name] + slope if name in totals else slope.clone()
            sizes[name] = sizes[name] + slope.abs() if name in sizes else slope.abs()
    for name, total in totals.items():
        net.get_parameter(name).grad = total / len(shards)
    return {**_step(net), "sizes": {name: (size / len(shards)).max().item() for name, size in sizes.items()}}


def _backward(net: nn.Module, shard: tuple[Tensor, Tensor], dtype: torch.dtype | None) -> None:
    images, labels = shard
    with torch.autocast(images.device.type, dtype=dtype) if dtype else nullcontext():
        loss = cross_entropy(net(images), labels)
    torch.autograd.backward(loss)


def _gradients(net: nn.Module) -> dict[str, Tensor]:
    return {name: each.grad for name, each in net.named_parameters() if each.grad is not None}


def _step(net: Mlp) -> dict[str, Any]:
    """Clip and step; return the norm before, the gradients, the updates, and the rest that is compared."""
    before = {name: each.detach().cpu().clone() for name, each in net.named_parameters()}
    gradients = _numbers(_gradients(net))
    norm = nn.utils.clip_grad_norm_(net.parameters(), _NORM).item()
    torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=RATE).step()
    after = {name: each.detach().cpu() for name, each in net.named_parameters()}
    return {
        "norm": norm,
        "gradients": gradients,
        "updates": _numbers({name: after[name] - before[name] for name in gradients}),
        "largest": {name: before[name].abs().max().item() for name in gradients},
        "frozen": torch.equal(after[FROZEN], before[FROZEN]),
        "weights": fingerprint(after),
        "scores": seen(net)["scores"],
    }


def _numbers(tensors: Mapping[str, Tensor]) -> Numbers:
    return {name: each.detach().cpu().flatten().tolist() for name, each in tensors.items()}


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
    step = "train_first_step"

    @pytest.fixture(params=list(DTYPES))
    def dtype(self, request: pytest.FixtureRequest) -> str:
        """The dtype inside the model."""
        return str(request.param)

    @pytest.fixture
    def steps(self, backend: str, ranks: Facts, dtype: str) -> list[dict[str, Any]]:
        """Return each rank's step."""
        reject_without(backend, dtype)
        return results_of(ranks, dtype)

    @pytest.fixture
    def alone(self, ranks: Facts, dtype: str) -> dict[str, Any]:
        """Return the steps of one device, in two orders; its gradients must be usable as a reference."""
        (found,) = results_of(ranks[:1], f"{dtype} alone")
        gradients = found["reference"]["gradients"]
        unusable = [name for name, mean in gradients.items() if not (all(map(math.isfinite, mean)) and any(mean))]
        assert not unusable, "on one device, these gradients are all zero, or not finite"
        return dict(found)

    @shows("ddp_averaging", "{dtype}")
    def test_gradients_match_one_device(
        self, steps: list[dict[str, Any]], alone: dict[str, Any], record_property: Callable[[str, object], None]
    ) -> None:
        _check(record_property, _compare(steps, alone, "gradients"))

    @shows("ddp_averaging", "{dtype}")
    def test_updates_match_one_device(
        self, steps: list[dict[str, Any]], alone: dict[str, Any], record_property: Callable[[str, object], None]
    ) -> None:
        _check(record_property, _compare(steps, alone, "updates"))

    @shows("ddp_averaging", "{dtype}")
    def test_gradient_norm_matches_one_device(
        self, steps: list[dict[str, Any]], alone: dict[str, Any], record_property: Callable[[str, object], None]
    ) -> None:
        right, other = alone["reference"], alone["gate"]
        figure = {
            "name": "gradient norm before clipping",
            "found": max(distance([each["norm"]], [right["norm"]]) for each in steps),
            "bound": bound_of_norm(right, len(steps)),
            "gate": distance([other["norm"]], [right["norm"]]),
        }
        _check(record_property, [figure])

    @shows("ddp_averaging", "{dtype}")
    def test_gradients_are_close_to_float64(
        self,
        steps: list[dict[str, Any]],
        alone: dict[str, Any],
        dtype: str,
        claimed: Claims,
        record_property: Callable[[str, object], None],
    ) -> None:
        read = "ten bits" if dtype == "float32" and claimed["float32_products"].denied else dtype
        host, bounds = compute_on_host(len(steps)), bounds_on_host(len(steps), BITS[read])
        figures = [
            {
                "name": f"gradient of {name}, against float64",
                "found": max(distance(each["gradients"][name], exact) for each in steps),
                "bound": bounds[name],
                "gate": distance(alone["gate"]["gradients"][name], alone["reference"]["gradients"][name]),
            }
            for name, exact in host["gradients"].items()
        ]
        _check(record_property, figures)

    @shows("ddp_averaging", "{dtype}")
    def test_ranks_have_bitwise_equal_weights(self, steps: list[dict[str, Any]]) -> None:
        assert len({each["weights"] for each in steps}) == 1

    @shows("ddp_averaging", "{dtype}")
    def test_frozen_weight_is_unchanged(self, steps: list[dict[str, Any]]) -> None:
        assert [each["frozen"] for each in steps] == [True] * len(steps)

    @shows("ddp_averaging", "{dtype}")
    def test_model_computes_in_the_dtype(self, steps: list[dict[str, Any]], dtype: str) -> None:
        assert [each["scores"] for each in steps] == [[f"torch.{dtype}"]] * len(steps)

    @shows("ddp_averaging", "{dtype}")
    @pytest.mark.parametrize("fault", FAULTS)
    def test_bound_excludes_wrong_gradients(
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
    host = compute_on_host(ranks)
    draws = [compute_on_host(ranks, off, seed)["gradients"] for seed in range(4)]
    return {
        name: 3 * max(distance(each[name], exact) for each in draws) + bound_of(host, name, ranks)
        for name, exact in host["gradients"].items()
    }


def bound_of_norm(right: dict[str, Any], ranks: int) -> float:
    """Return how far the norm of the gradients may be off: as far as the worst of them."""
    return max(bound_of(right, name, ranks) for name in right["gradients"])


def _check(record: Callable[[str, object], None], measured: Iterable[dict[str, Any]]) -> None:
    """Record the figures, and compare them with their bounds."""
    from northbridge_conformance.verdict import Figure, check  # with pydantic, which a rank does not need

    check(record, [Figure(**each) for each in measured])


def _compare(steps: list[dict[str, Any]], alone: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    right, other = alone["reference"], alone["gate"]
    for name, exact in right[kind].items():
        bound = bound_of(right, name, len(steps))
        if kind == "updates":  # the clipped gradient, and the rounding of the weight that it changes
            largest = max(map(abs, exact))
            bound += bound_of_norm(right, len(steps)) + 2 * ROUNDING * (right["largest"][name] + largest) / largest
        yield {
            "name": f"{kind.removesuffix('s')} of {name}",
            "found": max(distance(each[kind][name], exact) for each in steps),
            "bound": bound,
            "gate": distance(other[kind][name], exact),
        }
