"""The functions of ``torch.hpu`` about devices, memory and the one random generator."""

from __future__ import annotations

import os
from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def test_the_process_calls_its_card_0(hpu: ModuleType) -> None:
    assert hpu.current_device() == 0
    assert torch.ones(1, device="hpu").device == torch.device("hpu", 0)


def test_there_is_no_second_device_in_a_process(hpu: ModuleType) -> None:
    assert hpu.device_count() == 8
    with pytest.raises(RuntimeError):
        torch.ones(1, device="hpu:1")


def test_visible_modules_do_not_change_the_count(run: Run) -> None:
    assert run("print(torch.hpu.device_count())", HABANA_VISIBLE_MODULES="0,1") == "8\n"


def test_synchronize_takes_no_device(hpu: ModuleType) -> None:
    hpu.synchronize()
    with pytest.raises(TypeError, match="positional argument"):
        hpu.synchronize(0)


def test_capability_and_properties_are_texts(hpu: ModuleType) -> None:
    assert isinstance(hpu.get_device_capability(), str)
    assert isinstance(hpu.get_device_properties(0), str)
    assert "dramSize=" in hpu.get_device_properties(0)


def test_nothing_empties_a_cache(hpu: ModuleType) -> None:
    assert not hasattr(hpu, "empty_cache")


def test_what_random_dtensors_ask_for_is_not_there(hpu: ModuleType) -> None:
    assert not hasattr(hpu, "set_rng_ctx")


def test_a_name_that_deepspeed_has_is_not_there(hpu: ModuleType) -> None:
    assert not hasattr(hpu, "reset_max_memory_allocated")


def test_set_device_writes_the_module_of_that_place(run: Run) -> None:
    program = "import os; torch.hpu.set_device(2); print(os.environ['HLS_MODULE_ID'], torch.hpu.is_initialized())"
    assert run(program, HABANA_VISIBLE_MODULES="4,5,6,7") == "6 False\n"


def test_a_module_that_is_set_wins_over_set_device(hpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5,6,7")
    monkeypatch.setenv("HLS_MODULE_ID", "4")
    hpu.set_device(2)
    assert os.environ["HLS_MODULE_ID"] == "4"


def test_a_module_that_is_set_has_to_be_visible(hpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5,6,7")
    monkeypatch.setenv("HLS_MODULE_ID", "0")
    with pytest.raises(AssertionError, match="HLS_MODULE_ID=0 is not among"):
        hpu.set_device(2)
    with pytest.raises(AssertionError, match="HLS_MODULE_ID=0 is not among"), hpu.device(0):
        pass


def test_set_device_needs_a_variable_below_eight(run: Run) -> None:
    said = run(
        """
        try:
            torch.hpu.set_device(1)
        except AssertionError as error:
            print(error)
        """,
        NORTHBRIDGE_CPU_SIM_DEVICES="4",
    )
    assert said.startswith("device 1 needs HLS_MODULE_ID or HABANA_VISIBLE_MODULES")


def test_the_context_of_another_device_is_refused(hpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLS_MODULE_ID", "3")
    with hpu.device(0), hpu.device(3):
        pass
    with pytest.raises(AssertionError, match="device 2 is neither 0 nor HLS_MODULE_ID=3"):
        hpu.device(2)


@pytest.mark.parametrize(("generation", "name"), [("1", "GAUDI"), ("2", "GAUDI2"), ("3", "GAUDI3")])
def test_the_generation_can_be_asked_before_the_card_is_taken(run: Run, generation: str, name: str) -> None:
    said = run(
        """
        from habana_frameworks.torch.utils.experimental import _get_device_type, synDeviceType
        print([each.name for each in synDeviceType if each == _get_device_type()], torch.hpu.is_initialized())
        print(torch.hpu.get_device_name())
        """,
        NORTHBRIDGE_HPU_SIM_GENERATION=generation,
    )
    assert said == f"['synDevice{name.capitalize()}'] False\n{name}\n"


def test_memory_is_told_under_the_vendors_keys(hpu: ModuleType) -> None:
    kept = torch.ones(2**20, device="hpu")
    stats = hpu.memory_stats()
    counts = "NumAllocs NumFrees ActiveAllocs TotalSystemAllocs TotalSystemFrees TotalActiveAllocs"
    assert set(stats) == {"Limit", "InUse", "MaxInUse", "MaxAllocSize", *counts.split()}
    assert kept.nbytes <= stats["InUse"] <= stats["MaxInUse"] <= stats["Limit"] == 96 * 2**30
    assert hpu.memory_allocated() == stats["InUse"]
    assert hpu.max_memory_allocated() == stats["MaxInUse"]
    assert hpu.memory_reserved() == stats["Limit"]
    assert hpu.mem_get_info() == (stats["Limit"] - stats["InUse"], stats["Limit"])


def test_the_peak_starts_anew(hpu: ModuleType) -> None:
    torch.ones(2**22, device="hpu")
    hpu.reset_peak_memory_stats()
    stats = hpu.memory_stats()
    assert stats["MaxInUse"] == stats["InUse"]


def test_initializing_sets_the_checkpointing_device(hpu: ModuleType) -> None:
    from torch.utils.checkpoint import DefaultDeviceType

    hpu.current_device()
    assert DefaultDeviceType.get_device_type() == "hpu"
    assert hpu.is_initialized()


def test_it_says_that_it_has_been_initialized(run: Run) -> None:
    program = "before = torch.hpu._initialized; torch.ones(1, device='hpu'); print(before, torch.hpu._initialized)"
    assert run(program) == "False True\n"


def test_a_file_of_the_card_opens_on_the_card(hpu: ModuleType, tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "tensor.pt")
    torch.save(torch.arange(3.0, device="hpu"), file)
    assert torch.load(file, weights_only=True).device.type == "hpu"


def test_all_cards_have_bfloat16(hpu: ModuleType) -> None:
    assert hpu.is_bf16_supported()
    assert hpu.is_available()


@pytest.fixture(params=["torch.hpu", "torch.hpu.random"])
def generator(request: pytest.FixtureRequest, hpu: ModuleType) -> ModuleType:
    """The functions of the generator, in either of the modules that offer them."""
    module: ModuleType = hpu if request.param == "torch.hpu" else hpu.random
    return module


def test_torch_seed_is_that_of_the_card_too(hpu: ModuleType) -> None:
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
