"""Streams and events: torch's own, with signatures that are not CUDA's."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run


def test_stream_is_a_torch_stream_and_current_in_its_context(hpu: ModuleType) -> None:
    stream = hpu.Stream()

    with hpu.stream(stream):
        assert hpu.current_stream() == stream == torch.accelerator.current_stream()
        with hpu.stream(None):
            assert hpu.current_stream() == stream
    assert hpu.current_stream() == hpu.default_stream() == torch.accelerator.current_stream()

    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("hpu", 0)
    assert stream != hpu.Stream()
    assert repr(stream) == f"<torch.hpu.Stream device=hpu:0 hpu_stream={stream.stream_id:#x}>"


def test_a_stream_that_is_set_stays_and_none_changes_nothing(hpu: ModuleType) -> None:
    stream = hpu.Stream(3, priority=-1)
    with pytest.raises(ValueError, match="inside"), hpu.stream(stream):
        raise ValueError("inside")
    assert hpu.current_stream() == hpu.default_stream()

    hpu.set_stream(stream)
    hpu.set_stream(None)
    stayed = hpu.current_stream()
    hpu.set_stream(hpu.default_stream())

    assert stayed == stream
    assert (stream.device.index, stream.priority) == (0, 0)  # neither is listened to


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


def test_event_measures_up_to_a_torch_event_too(hpu: ModuleType) -> None:
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
def test_streams_need_no_wait_for_each_other(run: Run) -> None:
    """The host needs one."""
    said = run(
        """
        with torch.hpu.stream(torch.hpu.Stream()):
            there = torch.ones(1).pin_memory().to("hpu", non_blocking=True)
        print((there + 1).item())
        here = there.to("cpu", non_blocking=True)
        print(here.item())
        torch.hpu.synchronize()
        print(here.item())
        """,
        NORTHBRIDGE_CPU_SIM_STREAMS="deferred",
    )

    assert said == "2.0\nnan\n1.0\n"


@pytest.mark.parametrize(("lazy", "seen"), [("0", "False"), ("1", "True")])
def test_in_lazy_mode_a_thread_sees_what_another_one_set(run: Run, lazy: str, seen: str) -> None:
    said = run(
        """
        import threading
        stream = torch.hpu.Stream()
        torch.hpu.set_stream(stream)
        thread = threading.Thread(target=lambda: print(torch.hpu.current_stream() == stream))
        thread.start()
        thread.join()
        """,
        PT_HPU_LAZY_MODE=lazy,
    )

    assert said == f"{seen}\n"
