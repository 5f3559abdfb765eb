"""Random numbers from the chip's generator, and their distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of, reject_without

DRAWS: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "rand": lambda device, **own: torch.rand(64, device=device, **own),
        "randn": lambda device, **own: torch.randn(64, device=device, **own),
        "randint": lambda device, **own: torch.randint(0, 1000, (64,), device=device, **own),
        "randperm": lambda device, **own: torch.randperm(64, device=device, **own),
        "bernoulli": lambda device, **own: torch.bernoulli(torch.full((64,), 0.5, device=device), **own),
        "multinomial": lambda device, **own: torch.multinomial(torch.ones(64, device=device), 32, **own),
        "uniform": lambda device, **own: torch.empty(64, device=device).uniform_(-1, 1, **own),
        "normal": lambda device, **own: torch.empty(64, device=device).normal_(3, 2, **own),
        "exponential": lambda device, **own: torch.empty(64, device=device).exponential_(**own),
        "dropout": lambda device: nn.functional.dropout(torch.ones(64, device=device)),
    }
)
"""The ways to draw random numbers on a device; most accept a ``generator``."""

MOST_BITS = 32
"""The number of bits of a seed: Lightning's seed_everything() accepts no larger one."""


class RandomNumbers(OneDevice):
    """Each device has its own generator, which can be seeded, read and restored."""

    claims: tuple[str, ...] = ("random_numbers",)
    advice = (
        "Look at Device.seed(), random_state() and set_random_state(): they speak to manual_seed_all, get_rng_state and"
        " set_rng_state of torch.<type>, which have to reach the generator that the chip's kernels draw from."
    )

    @pytest.fixture(autouse=True)
    def generators(self, backend: str) -> None:
        """Raise :class:`UnsupportedError` if the chip denies generators: Northbridge then calls none of it."""
        reject_without(backend, "random_numbers")

    def test_second_load_keeps_the_random_state(
        self, backend: str, chip: northbridge.Device, device: torch.device
    ) -> None:
        torch.rand(4, device=device)
        state = chip.random_state()

        northbridge.get(backend).bridge.load()
        northbridge.load(backend)

        assert torch.equal(chip.random_state(), state)

    @pytest.mark.parametrize("draw", DRAWS)
    def test_same_seed_gives_the_same_sequence(self, chip: northbridge.Device, device: torch.device, draw: str) -> None:
        chip.seed(5)
        first, second = (DRAWS[draw](device).tolist() for _ in range(2))
        chip.seed(5)
        again = DRAWS[draw](device).tolist()
        chip.seed(6)

        assert again == first
        assert second != first
        assert DRAWS[draw](device).tolist() != first

    def test_every_bit_of_a_seed_counts(self, chip: northbridge.Device, device: torch.device) -> None:
        drawn = []
        for seed in (5, *(5 ^ 1 << bit for bit in range(MOST_BITS)), 2**MOST_BITS - 1):
            chip.seed(seed)
            drawn.append(tuple(torch.rand(4, device=device).tolist()))

        assert len(set(drawn)) == len(drawn)

    @pytest.mark.parametrize("draw", DRAWS)
    def test_restored_state_gives_the_same_numbers(
        self, chip: northbridge.Device, device: torch.device, draw: str
    ) -> None:
        chip.seed(5)
        DRAWS[draw](device)
        state = chip.random_state()
        first = [DRAWS[draw](device).tolist() for _ in range(3)]

        chip.set_random_state(state)

        assert state.device.type == "cpu"
        assert [DRAWS[draw](device).tolist() for _ in range(3)] == first

    @pytest.mark.parametrize("draw", DRAWS)
    def test_drawing_on_the_device_keeps_the_cpu_generator(self, device: torch.device, draw: str) -> None:
        before = torch.get_rng_state()

        DRAWS[draw](device)

        assert torch.equal(torch.get_rng_state(), before)

    def test_seeding_the_device_keeps_the_cpu_generator(self, chip: northbridge.Device, device: torch.device) -> None:
        before = torch.get_rng_state()

        chip.seed(5)

        assert torch.equal(torch.get_rng_state(), before)

    def test_drawing_on_the_cpu_keeps_the_device_generator(
        self, chip: northbridge.Device, device: torch.device
    ) -> None:
        before = chip.random_state()

        torch.randn(4)

        assert torch.equal(chip.random_state(), before)

    def test_random_state_is_a_snapshot(self, chip: northbridge.Device, device: torch.device) -> None:
        state = chip.random_state()
        kept = state.clone()

        torch.rand(4, device=device)

        assert torch.equal(state, kept)
        assert not torch.equal(chip.random_state(), kept)

    def test_random_state_can_be_rebuilt_from_its_values(self, chip: northbridge.Device, device: torch.device) -> None:
        state = chip.random_state()
        first = torch.rand(4, device=device).tolist()

        chip.set_random_state(torch.tensor(state.tolist(), dtype=state.dtype))

        assert torch.rand(4, device=device).tolist() == first

    def test_same_seed_gives_the_same_numbers_on_two_devices(
        self, chip: northbridge.Device, device: torch.device, other: torch.device, alone: bool
    ) -> None:
        if alone:
            with pytest.raises(RuntimeError):
                torch.rand(4, device=other)
            return
        chip.seed(9)

        drawn = [[torch.rand(4, device=each).tolist() for each in (device, other)] for _ in range(3)]

        assert all(here == there for here, there in drawn)
        assert drawn[0] != drawn[1] != drawn[2]

    def test_drawing_on_one_device_keeps_the_other_generator(
        self, chip: northbridge.Device, device: torch.device, other: torch.device, alone: bool
    ) -> None:
        chip.seed(9)
        first = torch.rand(4, device=device).tolist()
        chip.seed(9)

        if alone:
            with pytest.raises(RuntimeError):
                torch.rand(4, device=other)
        else:
            torch.rand(1000, device=other)

        assert torch.rand(4, device=device).tolist() == first

    def test_random_state_is_per_device(
        self, chip: northbridge.Device, device: torch.device, index: int, other: torch.device, alone: bool
    ) -> None:
        chip.seed(9)
        start = chip.random_state()
        torch.rand(4, device=device)
        here = chip.random_state()
        assert not torch.equal(here, start)
        if alone:
            with pytest.raises((RuntimeError, northbridge.NorthbridgeError)):
                chip.select(0 if index else 1)
            assert torch.equal(chip.random_state(), here)
            return

        chip.select(0)
        there = chip.random_state()
        chip.set_random_state(here)
        chip.select(index)

        assert torch.equal(there, start)
        assert torch.equal(chip.random_state(), here)
        chip.set_random_state(start)
        assert torch.rand(9, device=device)[:4].tolist() != torch.rand(4, device=other).tolist()

    def test_fork_rng_restores_each_given_device(
        self, chip: northbridge.Device, device: torch.device, index: int, other: torch.device, alone: bool
    ) -> None:
        if lacks_torch_functions(chip):
            return
        chip.seed(9)
        devices = [device] if alone else [other, device]
        for number, each in enumerate(devices):
            torch.rand(3 + number, device=each)  # gives each generator another state

        with torch.random.fork_rng([each.index for each in devices], device_type=chip.type):
            inside = [torch.rand(4, device=each).tolist() for each in devices]

        assert [torch.rand(4, device=each).tolist() for each in devices] == inside

    def test_get_rng_state_is_that_of_the_given_device(
        self, chip: northbridge.Device, device: torch.device, other: torch.device, alone: bool
    ) -> None:
        module: Any = chip.module
        if lacks_torch_functions(chip):
            return
        chip.seed(9)
        start = module.get_rng_state(device)
        torch.rand(4, device=device)
        here = module.get_rng_state(device)
        assert not torch.equal(here, start)
        if alone:
            return

        assert torch.equal(module.get_rng_state(other), start)
        module.set_rng_state(here, other)

        assert torch.equal(module.get_rng_state(other), here)
        module.set_rng_state(start, other)
        assert torch.equal(module.get_rng_state(device), here)

    @pytest.mark.parametrize("draw", sorted(DRAWS.keys() - {"dropout"}))
    def test_separate_generator_is_independent(self, chip: northbridge.Device, device: torch.device, draw: str) -> None:
        mine, second = (torch.Generator(device).manual_seed(3) for _ in range(2))
        before = chip.random_state()

        drawn = DRAWS[draw](device, generator=mine).tolist()
        state = mine.get_state()
        further = DRAWS[draw](device, generator=mine).tolist()

        assert DRAWS[draw](device, generator=second).tolist() == drawn
        assert torch.equal(chip.random_state(), before)
        assert further != drawn
        mine.set_state(state)
        assert DRAWS[draw](device, generator=mine).tolist() == further

    def test_torch_manual_seed_seeds_the_device(self, chip: northbridge.Device, device: torch.device) -> None:
        if lacks_torch_functions(chip):
            return
        torch.manual_seed(11)
        first = torch.rand(4, device=device).tolist()
        torch.manual_seed(11)

        assert torch.rand(4, device=device).tolist() == first


def lacks_torch_functions(chip: northbridge.Device) -> bool:
    """Return True if torch has no module of the chip: its functions do not reach the generators, and have to raise."""
    if hasattr(torch, chip.type):
        return False
    with pytest.raises(RuntimeError), torch.random.fork_rng([0], device_type=chip.type):
        pass
    return True


MANY = 20000


class Distributions(OneDevice):
    """Random numbers have torch's distributions, and dropout drops its share."""

    advice = (
        "Look at the kernels of your torch plugin that draw: which numbers they make of the generator's bits, and"
        " whether each is drawn once."
    )

    def test_rand_randn_randint_and_randperm_distributions(self, device: torch.device) -> None:
        torch.manual_seed(1)
        flat, bell = torch.rand(MANY, device=device).cpu(), torch.randn(MANY, device=device).cpu()
        whole = torch.randint(-2, 3, (MANY,), device=device).cpu()
        order = torch.randperm(1000, device=device).cpu()

        assert 0 <= flat.min() < 0.01
        assert 0.99 < flat.max() < 1
        assert abs(flat.mean() - 0.5) < 0.02
        assert abs(bell.mean()) < 0.04
        assert abs(bell.std() - 1) < 0.04
        assert whole.add(2).bincount().tolist() == pytest.approx([MANY / 5] * 5, rel=0.1)
        assert order.sort().values.tolist() == list(range(1000))
        assert order.tolist() != list(range(1000))

    def test_distributions_follow_their_parameters(self, device: torch.device) -> None:
        torch.manual_seed(1)
        weights = torch.tensor([0.0, 1.0, 3.0, 6.0], device=device)
        chances = torch.tensor([0.0, 0.2, 0.9, 1.0]).repeat(MANY).to(device)
        drawn = torch.multinomial(weights, MANY, replacement=True).cpu()
        tossed = torch.bernoulli(chances).cpu().view(MANY, 4)
        flat = torch.empty(MANY, device=device).uniform_(-3, 5).cpu()
        bell = torch.empty(MANY, device=device).normal_(3, 2).cpu()
        waiting = torch.empty(MANY, device=device).exponential_(4).cpu()

        assert drawn.bincount(minlength=4).tolist() == pytest.approx(
            [0, MANY / 10, 3 * MANY / 10, 6 * MANY / 10], rel=0.1
        )
        assert torch.multinomial(weights, 3).sort().values.tolist() == [1, 2, 3]
        assert tossed.mean(0).tolist() == pytest.approx([0, 0.2, 0.9, 1], abs=0.02)
        assert -3 <= flat.min() < -2.9
        assert 4.9 < flat.max() <= 5
        assert flat.mean().item() == pytest.approx(1, abs=0.1)
        assert [bell.mean().item(), bell.std().item()] == pytest.approx([3, 2], abs=0.1)
        assert waiting.min() >= 0
        assert [waiting.mean().item(), waiting.std().item()] == pytest.approx([0.25, 0.25], abs=0.02)

    @pytest.mark.parametrize("share", [0.1, 0.5])
    def test_dropout_drops_its_share_and_scales_the_rest(self, device: torch.device, share: float) -> None:
        torch.manual_seed(1)
        given = torch.ones(MANY, device=device, requires_grad=True)

        found = nn.functional.dropout(given, share)
        torch.autograd.backward(found.sum())

        kept = found.detach().cpu() != 0
        assert kept.float().mean().item() == pytest.approx(1 - share, abs=0.02)
        assert found.detach().cpu()[kept].tolist() == pytest.approx([1 / (1 - share)] * int(kept.sum()))
        assert torch.equal(gradient_of(given).cpu(), found.detach().cpu())
        assert torch.equal(nn.functional.dropout(given, share, training=False).cpu(), given.cpu())

    @shows("random_numbers")
    def test_recomputed_dropout_drops_the_same_elements(self, backend: str, device: torch.device) -> None:
        reject_without(backend, "random_numbers")  # torch saves and restores the state of the chip's generator
        given = torch.ones(MANY, device=device, requires_grad=True)

        found: Any = checkpoint(lambda numbers: nn.functional.dropout(numbers) * numbers, given, use_reentrant=False)
        torch.autograd.backward(found.sum())

        assert torch.equal(gradient_of(given).cpu(), 2 * found.detach().cpu())
