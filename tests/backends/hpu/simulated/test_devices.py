"""``torch.hpu`` where it differs from CUDA's: devices, memory, the one random generator, dtypes, and streams."""

from __future__ import annotations

import inspect
import os
from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch.utils.checkpoint import DefaultDeviceType, checkpoint

from northbridge_cpu_sim import Fault, faults_met, planned_faults


def test_functions_differ_from_cudas(hpu: ModuleType) -> None:
    hpu.synchronize()
    with pytest.raises(TypeError, match="positional argument"):
        hpu.synchronize(0)
    assert (hpu.current_device(), hpu.device_count(), hpu.get_device_name()) == (0, 8, "GAUDI2")
    with pytest.raises(RuntimeError):
        torch.ones(1, device="hpu:1")
    assert isinstance(hpu.get_device_capability(), str)
    assert "dramSize=" in hpu.get_device_properties(0)
    # set_rng_ctx would be for random DTensors, and reset_max_memory_allocated for DeepSpeed.
    for absent in ("empty_cache", "set_rng_ctx", "reset_max_memory_allocated"):
        assert not hasattr(hpu, absent)
    assert hpu.is_bf16_supported()
    assert hpu.is_available()


def test_set_device_writes_the_module_of_that_place(run: Run) -> None:
    program = """
    import os
    print(torch.hpu.device_count())
    torch.hpu.set_device(2)
    print(os.environ['HLS_MODULE_ID'], torch.hpu.is_initialized())
    """
    assert run(program, HABANA_VISIBLE_MODULES="4,5,6,7") == "8\n6 False\n"


def test_a_module_that_is_set_wins_and_has_to_be_visible(hpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLS_MODULE_ID", "3")
    with hpu.device(0), hpu.device(3):
        pass
    with pytest.raises(AssertionError, match="device 2 is neither 0 nor HLS_MODULE_ID=3"):
        hpu.device(2)
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5,6,7")
    monkeypatch.setenv("HLS_MODULE_ID", "4")
    hpu.set_device(2)
    assert os.environ["HLS_MODULE_ID"] == "4"
    monkeypatch.setenv("HLS_MODULE_ID", "0")
    with pytest.raises(AssertionError, match="HLS_MODULE_ID=0 is not among"), hpu.device(0):
        pass


def test_set_device_needs_a_variable_below_eight(run: Run) -> None:
    program = """
    try:
        torch.hpu.set_device(1)
    except AssertionError as error:
        print(error)
    """
    said = run(program, NORTHBRIDGE_CPU_SIM_DEVICES="4")
    assert said.startswith("device 1 needs HLS_MODULE_ID or HABANA_VISIBLE_MODULES")


def test_memory_is_told_under_the_vendors_keys(hpu: ModuleType) -> None:
    kept = torch.ones(2**20, device="hpu")
    stats = hpu.memory_stats()
    counts = "NumAllocs NumFrees ActiveAllocs TotalSystemAllocs TotalSystemFrees TotalActiveAllocs"
    assert set(stats) == {"Limit", "InUse", "MaxInUse", "MaxAllocSize", *counts.split()}
    assert kept.nbytes <= stats["InUse"] <= stats["MaxInUse"] <= stats["Limit"] == 96 * 2**30
    assert (hpu.memory_allocated(), hpu.max_memory_allocated()) == (stats["InUse"], stats["MaxInUse"])
    assert hpu.memory_reserved() == hpu.max_memory_reserved() == stats["Limit"]
    for old in ("memory_cached", "max_memory_cached"):
        with pytest.warns(FutureWarning, match=f"{old} is called"):
            assert getattr(hpu, old)() == stats["Limit"]
    assert hpu.mem_get_info() == (stats["Limit"] - stats["InUse"], stats["Limit"])

    torch.ones(2**22, device="hpu")
    hpu.reset_peak_memory_stats()
    assert hpu.memory_stats()["NumAllocs"] > 0
    hpu.reset_accumulated_memory_stats()
    stats = hpu.memory_stats()
    assert stats["MaxInUse"] == stats["InUse"] >= kept.nbytes
    assert (stats["NumAllocs"], stats["MaxAllocSize"] >= kept.nbytes) == (0, True)


# The one random generator


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
    torch.manual_seed(7)
    assert hpu.random.default_generators[0].initial_seed() == hpu.initial_seed() == 7
    assert torch.seed() == hpu.initial_seed()


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
    half, *float8, wide = run(program + WIDE, NORTHBRIDGE_HPU_SIM_GENERATION="1", PT_HPU_LAZY_MODE="0").splitlines()
    assert half == "refused: float16/half is not supported on Gaudi."
    assert float8 == 2 * ["refused: float8 is not supported on Gaudi."]
    assert wide.startswith("refused:")


@pytest.mark.shows("float64 is computed as float32")
def test_float64_is_computed_as_float32(hpu: ModuleType) -> None:
    third = torch.tensor(1.0, dtype=torch.float64, device="hpu") / 3
    assert third.dtype == torch.float64
    assert third.item() == (torch.tensor(1.0) / 3).item()


@pytest.mark.shows("int64 is held as int32")
@pytest.mark.parametrize(
    "environ",
    [
        {"PT_HPU_LAZY_MODE": "1", "PT_ENABLE_INT64_SUPPORT": "1"},
        {"PT_HPU_LAZY_MODE": "0", "PT_ENABLE_INT64_SUPPORT": "0"},
    ],
)
def test_int64_is_held_as_int32(run: Run, environ: dict[str, str]) -> None:
    *_, refused, wrapped = run(f"{WIDE}print((torch.tensor([2**31 - 1]).to('hpu') + 1).item())", **environ).splitlines()
    assert refused.startswith("refused:")
    assert str(2**40) in refused
    assert wrapped == f"{-(2**31)}"


def test_int64_support_is_read_when_the_card_is_acquired(run: Run) -> None:
    said = run(
        f"""
import os
import northbridge
claims = northbridge.load("hpu").present_capabilities
os.environ["PT_ENABLE_INT64_SUPPORT"] = "0"
print(claims().int64.answer)
northbridge.get("hpu").device.select(0)
os.environ["PT_ENABLE_INT64_SUPPORT"] = "1"
print(claims().int64.answer)
{WIDE}
        """
    )
    assert said.startswith("no\nno\nrefused: Error when trying to cast Long to Int, In")
    assert run(WIDE, PT_HPU_LAZY_MODE="0").endswith("True\n")


def test_a_result_on_the_card_is_changed_as_planned(hpu: ModuleType) -> None:
    """It shares the chip, and so what can go wrong on it."""
    x = torch.ones(2, device="hpu")
    with planned_faults(Fault("corrupt", op="add", value=7)):
        first, second = x + 1, x + 1

    assert (first.tolist(), second.tolist()) == ([7.0, 2.0], [2.0, 2.0])
    assert faults_met()[-1].op == "aten::add"


# Streams and events: torch's own, with signatures that are not CUDA's


def test_stream_is_a_torch_stream_and_current_in_its_context(hpu: ModuleType) -> None:
    stream = hpu.Stream(3, priority=-1)

    with hpu.stream(stream):
        assert hpu.current_stream() == stream == torch.accelerator.current_stream()
        with hpu.stream(None):
            assert hpu.current_stream() == stream
    with pytest.raises(ValueError, match="inside"), hpu.stream(stream):
        raise ValueError("inside")
    assert hpu.current_stream() == hpu.default_stream() == torch.accelerator.current_stream()
    hpu.set_stream(stream)
    hpu.set_stream(None)
    assert hpu.current_stream() == stream
    hpu.set_stream(hpu.default_stream())

    assert (stream.device.index, stream.priority) == (0, 0)  # neither is listened to
    assert isinstance(stream, torch.Stream)
    assert stream != hpu.Stream()
    assert repr(stream) == f"<torch.hpu.Stream device=hpu:0 hpu_stream={stream.stream_id:#x}>"


def test_vendor_streams_and_events_go_where_torch_ones_do(hpu: ModuleType) -> None:
    stream, event = hpu.Stream(), hpu.Event()

    assert stream.record_event(event) is event
    assert isinstance(stream.record_event(), hpu.Event)
    for each in (stream, torch.accelerator.current_stream()):
        each.wait_event(event)
        event.wait(each)
    event.wait()
    stream.wait_stream(torch.accelerator.current_stream())
    event.synchronize()
    stream.synchronize()
    assert (event.query(), stream.query()) == (True, True)

    ours, theirs = hpu.Event(enable_timing=True), torch.Event("hpu", enable_timing=True)
    ours.record()
    theirs.record()
    theirs.synchronize()
    assert ours.elapsed_time(theirs) >= 0
    with pytest.raises(ValueError, match="enable_timing"):
        ours.elapsed_time(hpu.current_stream().record_event())


def test_a_tensor_is_recorded_by_the_modules_function(hpu: ModuleType) -> None:
    side = hpu.Stream()
    there = torch.ones(2, device="hpu")
    with hpu.stream(side):
        here = there.to("cpu", non_blocking=True)
    hpu.record_stream(there, side)
    del there

    side.synchronize()

    assert here.tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="record_stream"):
        torch.ones(1).record_stream(hpu.current_stream())


@pytest.mark.shows("the streams of a card keep the order of the script")
@pytest.mark.parametrize(("lazy", "seen"), [("0", "False"), ("1", "True")])
def test_streams_need_no_wait_for_each_other(run: Run, lazy: str, seen: str) -> None:
    """The host needs one. In lazy mode a thread sees what another one set."""
    program = """
    import threading
    with torch.hpu.stream(torch.hpu.Stream()):
        there = torch.ones(1).pin_memory().to("hpu", non_blocking=True)
    print((there + 1).item())
    here = there.to("cpu", non_blocking=True)
    print(here.item())
    torch.hpu.synchronize()
    print(here.item())
    stream = torch.hpu.Stream()
    torch.hpu.set_stream(stream)
    thread = threading.Thread(target=lambda: print(torch.hpu.current_stream() == stream))
    thread.start()
    thread.join()
    """
    said = run(program, NORTHBRIDGE_CPU_SIM_STREAMS="deferred", PT_HPU_LAZY_MODE=lazy)
    assert said == f"2.0\nnan\n1.0\n{seen}\n"
