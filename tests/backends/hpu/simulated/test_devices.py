"""The functions of ``torch.hpu`` about devices, memory and the one random generator; dtypes, and planned faults."""

from __future__ import annotations

import inspect
import os
from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch.utils.checkpoint import DefaultDeviceType, checkpoint
from torch.utils.data import DataLoader, TensorDataset

from northbridge_cpu_sim import Fault, faults_met, planned_faults


def test_the_process_calls_its_card_0_and_has_no_second(hpu: ModuleType) -> None:
    assert (hpu.current_device(), hpu.device_count()) == (0, 8)
    assert torch.ones(1, device="hpu").device == torch.device("hpu", 0)
    with pytest.raises(RuntimeError):
        torch.ones(1, device="hpu:1")


def test_functions_differ_from_cudas(hpu: ModuleType) -> None:
    hpu.synchronize()
    with pytest.raises(TypeError, match="positional argument"):
        hpu.synchronize(0)
    assert hpu.get_device_name() == "GAUDI2"
    assert isinstance(hpu.get_device_capability(), str)
    assert "dramSize=" in hpu.get_device_properties(0)
    # set_rng_ctx would be for random DTensors, and reset_max_memory_allocated for DeepSpeed.
    for absent in ("empty_cache", "set_rng_ctx", "reset_max_memory_allocated"):
        assert not hasattr(hpu, absent)
    assert hpu.is_bf16_supported()
    assert hpu.is_available()


def test_set_device_writes_the_module_of_that_place(run: Run) -> None:
    program = (
        "import os; print(torch.hpu.device_count()); torch.hpu.set_device(2); print(os.environ['HLS_MODULE_ID'],"
        " torch.hpu.is_initialized())"
    )
    assert run(program, HABANA_VISIBLE_MODULES="4,5,6,7") == "8\n6 False\n"


def test_a_module_that_is_set_wins_and_has_to_be_visible(hpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5,6,7")
    monkeypatch.setenv("HLS_MODULE_ID", "4")
    hpu.set_device(2)
    assert os.environ["HLS_MODULE_ID"] == "4"
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

    torch.ones(2**22, device="hpu")
    hpu.reset_peak_memory_stats()
    stats = hpu.memory_stats()
    assert stats["MaxInUse"] == stats["InUse"]


def test_a_file_of_the_card_opens_on_the_card(hpu: ModuleType, tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "tensor.pt")
    torch.save(torch.arange(3.0, device="hpu"), file)
    assert torch.load(file, weights_only=True).device.type == "hpu"


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


def test_the_one_generator_is_kept_put_back_and_seeded(hpu: ModuleType) -> None:
    functions = [name for name, value in vars(hpu.random).items() if inspect.isfunction(value) and name[0] != "_"]
    assert len(functions) == 9
    assert all(inspect.unwrap(getattr(hpu, name)) is inspect.unwrap(getattr(hpu.random, name)) for name in functions)
    state = hpu.get_rng_state("hpu")
    states = hpu.get_rng_state_all()
    first = torch.rand(4, device="hpu")
    hpu.set_rng_state(state, "hpu:0")
    second = torch.rand(4, device="hpu")
    hpu.set_rng_state_all(states)
    assert torch.equal(first, second)
    assert torch.equal(first, torch.rand(4, device="hpu"))
    with pytest.raises(RuntimeError, match="hpu get_rng_state supports only device 0"):
        hpu.get_rng_state(1)
    with pytest.raises(RuntimeError, match="hpu set_rng_state supports only device 0"):
        hpu.set_rng_state(state, 1)
    with pytest.raises(AssertionError, match="2 states"):
        hpu.set_rng_state_all(2 * states)
    assert hpu.manual_seed(3).initial_seed() == 3
    hpu.manual_seed_all(4)
    assert hpu.initial_seed() == 4
    for seed in (hpu.seed, hpu.seed_all):
        before = hpu.initial_seed()
        seed()
        assert hpu.initial_seed() != before


@pytest.mark.filterwarnings("ignore:HPU reports that you have 8 available devices")
def test_forking_the_generators_trips_over_the_second_card(hpu: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="supports only device 0"), torch.random.fork_rng():
        pass
    torch.manual_seed(7)
    with torch.random.fork_rng(devices=[0]):
        inside = torch.rand(4, device="hpu")
    assert torch.equal(inside, torch.rand(4, device="hpu"))


def test_a_dropout_that_is_computed_again_draws_the_same_numbers(hpu: ModuleType) -> None:
    assert DefaultDeviceType.get_device_type() == "hpu"
    hpu.manual_seed(7)
    data = torch.ones(1000, device="hpu", requires_grad=True)
    kept = checkpoint(torch.nn.functional.dropout, data, use_reentrant=False)
    kept.sum().backward()
    assert data.grad is not None
    assert torch.equal(kept, data.grad)


# Dtypes that a card does not have, or has in name only

TRY = """
try:
    print({expression})
except RuntimeError as error:
    print("refused:", error)
"""
WIDE = TRY.format(expression="torch.tensor([2**40]).to('hpu').item() == 2**40")


@pytest.mark.shows("complex tensors are refused")
@pytest.mark.usefixtures("hpu")
def test_dtypes_in_no_vendor_table_are_refused() -> None:
    for dtype in (torch.complex64, torch.complex128):
        with pytest.raises(RuntimeError, match="Complex datatype is not supported on HPU device"):
            torch.ones(1, dtype=dtype).to("hpu")
    for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fnuz):
        with pytest.raises(RuntimeError, match="is not supported on HPU device"):
            torch.zeros(1, dtype=dtype).to("hpu")
    for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        assert torch.ones(1).to(dtype).to("hpu").float().item() == 1


@pytest.mark.shows("float16 is refused by the first generation", "float8 is refused by the first generation")
def test_the_first_generation_refuses_small_dtypes(run: Run) -> None:
    program = "".join(
        TRY.format(expression=f"torch.ones(1).to(torch.{dtype}).to('hpu')")
        for dtype in ("float16", "float8_e4m3fn", "float8_e5m2")
    )
    half, *float8 = run(program, NORTHBRIDGE_HPU_SIM_GENERATION="1").splitlines()
    assert half == "refused: float16/half is not supported on Gaudi."
    assert float8 == 2 * ["refused: float8 is not supported on Gaudi."]


@pytest.mark.shows("float64 is computed as float32")
def test_float64_is_computed_as_float32(hpu: ModuleType) -> None:
    third = torch.tensor(1.0, dtype=torch.float64, device="hpu") / 3
    assert third.dtype == torch.float64
    assert third.item() == (torch.tensor(1.0) / 3).item()


@pytest.mark.shows("int64 is held as int32")
@pytest.mark.parametrize(
    "environ",
    [
        {"PT_HPU_LAZY_MODE": "1"},
        {"PT_HPU_LAZY_MODE": "1", "PT_ENABLE_INT64_SUPPORT": "1"},
        {"PT_HPU_LAZY_MODE": "0", "PT_ENABLE_INT64_SUPPORT": "0"},
        {"PT_HPU_LAZY_MODE": "0", "NORTHBRIDGE_HPU_SIM_GENERATION": "1"},
    ],
)
def test_int64_that_does_not_fit_in_int32_is_refused(run: Run, environ: dict[str, str]) -> None:
    said = run(WIDE, **environ).splitlines()[-1]
    assert said.startswith("refused:")
    assert str(2**40) in said


def test_int64_wraps_on_the_card_where_it_is_held_as_int32(run: Run) -> None:
    program = "print((torch.tensor([2**31 - 1]).to('hpu') + 1).item())"
    assert run(program, PT_HPU_LAZY_MODE="1") == f"{-(2**31)}\n"
    assert run(WIDE, PT_HPU_LAZY_MODE="0").endswith("True\n")


# It shares the chip, and so what can go wrong on it


def test_a_result_on_the_card_is_changed_as_planned(hpu: ModuleType) -> None:
    x = torch.ones(2, device="hpu")
    with planned_faults(Fault("corrupt", op="add", value=7)):
        first, second = x + 1, x + 1

    assert (first.tolist(), second.tolist()) == ([7.0, 2.0], [2.0, 2.0])
    assert faults_met()[-1].op == "aten::add"
