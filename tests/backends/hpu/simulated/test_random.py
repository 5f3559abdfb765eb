"""The one random generator, and the functions of torch that know of it."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


@pytest.fixture(params=["torch.hpu", "torch.hpu.random"])
def generator(request: pytest.FixtureRequest, hpu: ModuleType) -> ModuleType:
    """The functions of the generator, in either of the modules that offer them."""
    module: ModuleType = hpu if request.param == "torch.hpu" else hpu.random
    return module


def test_torchs_seed_is_the_cards_too(hpu: ModuleType) -> None:
    torch.manual_seed(7)
    first = torch.rand(4, device="hpu")
    torch.manual_seed(7)
    assert torch.equal(first, torch.rand(4, device="hpu"))
    assert hpu.initial_seed() == 7
    assert torch.seed() == hpu.initial_seed()


def test_forked_loader_workers_are_seeded(hpu: ModuleType) -> None:
    hpu.current_device()

    batches = list(DataLoader(TensorDataset(torch.arange(4)), batch_size=2, num_workers=1))

    assert [batch.tolist() for (batch,) in batches] == [[0, 1], [2, 3]]


def test_a_state_comes_back(generator: ModuleType) -> None:
    state = generator.get_rng_state("hpu")
    states = generator.get_rng_state_all()
    first = torch.rand(4, device="hpu")
    generator.set_rng_state(state, "hpu:0")
    second = torch.rand(4, device="hpu")
    generator.set_rng_state_all(states)
    assert torch.equal(first, second)
    assert torch.equal(first, torch.rand(4, device="hpu"))


def test_there_is_no_generator_but_the_first(generator: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="hpu get_rng_state supports only device 0"):
        generator.get_rng_state(1)
    with pytest.raises(RuntimeError, match="hpu set_rng_state supports only device 0"):
        generator.set_rng_state(generator.get_rng_state(0), 1)
    with pytest.raises(AssertionError, match="2 states"):
        generator.set_rng_state_all(2 * generator.get_rng_state_all())


def test_seeding_one_gives_the_generator(generator: ModuleType) -> None:
    assert generator.manual_seed(3).initial_seed() == 3
    generator.seed()
    assert generator.initial_seed() != 3


def test_seeding_all_seeds_the_one(generator: ModuleType) -> None:
    generator.manual_seed_all(4)
    assert generator.initial_seed() == 4
    generator.seed_all()
    assert generator.initial_seed() != 4


@pytest.mark.filterwarnings("ignore:HPU reports that you have 8 available devices")
def test_forking_the_generators_trips_over_the_second_card(hpu: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="supports only device 0"), torch.random.fork_rng():
        pass


def test_forking_the_first_generator_restores_it(hpu: ModuleType) -> None:
    torch.manual_seed(7)
    with torch.random.fork_rng(devices=[0]):
        inside = torch.rand(4, device="hpu")
    assert torch.equal(inside, torch.rand(4, device="hpu"))


def test_a_dropout_that_is_computed_again_draws_the_same_numbers(hpu: ModuleType) -> None:
    hpu.manual_seed(7)
    data = torch.ones(1000, device="hpu", requires_grad=True)
    kept = checkpoint(torch.nn.functional.dropout, data, use_reentrant=False)
    kept.sum().backward()
    assert data.grad is not None
    assert torch.equal(kept, data.grad)
