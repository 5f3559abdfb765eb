"""Random numbers of the chip: a generator for each device, apart from the CPU's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch.nn import functional

DRAWS: dict[str, Callable[[str], torch.Tensor]] = {
    "randperm": lambda device: torch.randperm(64, device=device),
    "normal": lambda device: torch.normal(torch.zeros(64, device=device), 1.0),
    "poisson": lambda device: torch.poisson(torch.full((64,), 5.0, device=device)),
    "native_dropout": lambda device: torch.native_dropout(torch.ones(64, device=device), 0.5, True)[0],
    "feature_dropout": lambda device: functional.dropout2d(torch.ones(8, 8, 2, 2, device=device)),
    "rrelu": lambda device: functional.rrelu(-torch.ones(64, device=device), training=True),
    "attention": lambda device: functional.scaled_dot_product_attention(
        (ones := torch.ones(1, 2, 8, 4, device=device)), ones, ones, dropout_p=0.5
    ),
    "gamma": lambda device: torch.distributions.Gamma(ones := torch.ones(64, device=device), ones).sample(),
}
"""The draws beside those of the suite, and one of its."""


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_one_sequence_on_its_device_alone(chip: ModuleType, name: str) -> None:
    draw = DRAWS[name]
    torch.manual_seed(5)
    cpu, before = torch.get_rng_state(), chip.get_rng_state_all()

    first, second = draw("cpu_sim:1"), draw("cpu_sim:1")

    assert torch.equal(torch.get_rng_state(), cpu)
    after = chip.get_rng_state_all()
    assert [torch.equal(x, y) for x, y in zip(before, after, strict=True)] == [index != 1 for index in range(8)]
    assert not torch.equal(first, second)
    assert torch.equal(first.cpu(), draw("cpu_sim:2").cpu())


def test_all_states_can_be_put_back_at_once(chip: ModuleType) -> None:
    states = chip.get_rng_state_all()
    first = [torch.randn(4, device=f"cpu_sim:{index}") for index in range(8)]

    chip.set_rng_state_all(states)

    again = [torch.randn(4, device=f"cpu_sim:{index}") for index in range(8)]
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


def test_seeds_are_per_device_or_for_all(chip: ModuleType) -> None:
    chip.manual_seed_all(1)
    with chip.device(3):
        chip.manual_seed(2)
        assert chip.initial_seed() == 2
    assert chip.initial_seed() == 1

    with chip.device(3):
        chip.seed()
        assert chip.initial_seed() != 2
    chip.seed_all()
    assert chip.initial_seed() != 1


@pytest.mark.parametrize(
    "clone_of",
    [lambda generator: pickle.loads(pickle.dumps(generator)), copy.deepcopy, lambda generator: generator.clone_state()],
    ids=["pickle", "deepcopy", "clone_state"],
)
def test_a_clone_goes_on_where_it_stood(
    chip: ModuleType, clone_of: Callable[[torch.Generator], torch.Generator]
) -> None:
    generator = torch.Generator(device="cpu_sim:1").manual_seed(3)
    torch.rand(4, device="cpu_sim:1", generator=generator)

    clone = clone_of(generator)

    assert clone.device == generator.device
    assert clone.initial_seed() == 3
    first, second = (torch.rand(4, device="cpu_sim:1", generator=one) for one in (generator, clone))
    assert torch.equal(first, second)


def test_a_state_is_a_seed_and_an_offset_as_on_cuda(chip: ModuleType) -> None:
    generator = torch.Generator(device="cpu_sim").manual_seed(3)
    assert generator.get_state().view(torch.int64).tolist() == [3, 0]
    first = torch.rand(4, device="cpu_sim", generator=generator)
    offset = generator.get_offset()

    second = torch.rand(4, device="cpu_sim", generator=generator)
    generator.set_offset(offset)

    assert torch.equal(torch.rand(4, device="cpu_sim", generator=generator), second)
    generator.manual_seed(3)
    assert generator.get_offset() == 0
    assert torch.equal(torch.rand(4, device="cpu_sim", generator=generator), first)


def test_near_seeds_and_offsets_have_nothing_in_common(chip: ModuleType) -> None:
    generator = torch.Generator(device="cpu_sim")
    drawn = []
    for seed in range(4):
        for offset in range(0, 16, 4):
            generator.manual_seed(seed).set_offset(offset)
            drawn.append(torch.randn(4096, device="cpu_sim", generator=generator))

    correlations = torch.corrcoef(torch.stack(drawn)).fill_diagonal_(0)
    assert correlations.abs().max().item() < 0.1  # 6 standard deviations of chance
    assert torch.stack(drawn).std().item() == pytest.approx(1, abs=0.02)


def test_a_state_of_another_kind_of_generator_is_refused(chip: ModuleType) -> None:
    with pytest.raises(
        ValueError, match="a state of 5056 bytes was given to a generator of cpu_sim, whose states have 16"
    ):
        chip.set_rng_state(torch.get_rng_state())


def test_every_device_has_a_default_generator(chip: ModuleType) -> None:
    assert [generator.device.index for generator in chip.default_generators] == list(range(8))
