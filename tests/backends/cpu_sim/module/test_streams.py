"""Streams that are deferred, as the tests of this folder have them: each program waits once too little, and shows it.

What a program computes that waits as it should is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

HERE = "cpu_sim:0"


@pytest.fixture
def side(chip: ModuleType) -> torch.Stream:
    """A stream that nothing waits for yet."""
    chip.synchronize()
    return torch.Stream(HERE)


def pinned(*values: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype).pin_memory()


@pytest.mark.parametrize(
    "wait",
    [
        lambda side, _: side.synchronize(),
        lambda side, _: torch.accelerator.synchronize(),
        lambda side, event: event.synchronize(),
        lambda side, event: torch.accelerator.current_stream().wait_event(event),
        lambda side, event: event.wait(torch.accelerator.current_stream()),
        lambda side, _: torch.accelerator.current_stream().wait_stream(side),
    ],
    ids=["the stream", "the device", "the event", "the stream for the event", "the event's wait", "the stream"],
)
def test_a_wait_finds_the_copy_done(side: torch.Stream, wait: Callable[[torch.Stream, torch.Event], None]) -> None:
    with side:
        there = pinned(1, 2).to(HERE, non_blocking=True)
        event = side.record_event()
    assert (there + 1).isnan().all().item()

    wait(side, event)

    assert there.tolist() == [1, 2]


def test_an_event_that_was_recorded_too_early_covers_nothing(side: torch.Stream) -> None:
    with side:
        early = side.record_event()
        there = pinned(1).to(HERE, non_blocking=True)

    early.synchronize()

    assert there.isnan().all().item()
    side.synchronize()


def test_who_asks_an_event_hears_no_before_yes(side: torch.Stream) -> None:
    with side:
        pinned(1).to(HERE, non_blocking=True)
        event = side.record_event()

    assert [event.query(), event.query(), side.query()] == [False, True, True]


def test_times_of_events_that_are_not_reached_are_refused(side: torch.Stream) -> None:
    start, end = torch.Event(HERE, enable_timing=True), torch.Event(HERE, enable_timing=True)
    start.record(side)
    with side:
        pinned(1).to(HERE, non_blocking=True)
    end.record(side)

    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)

    end.synchronize()
    assert start.elapsed_time(end) >= 0


@pytest.mark.parametrize("is_pinned", [True, False])
def test_pinned_memory_written_before_the_copy_is_copied(chip: ModuleType, is_pinned: bool) -> None:
    """Memory that is not pinned is read before the call returns."""
    source = torch.ones(2, pin_memory=is_pinned)
    there = source.to(HERE, non_blocking=True)
    source.zero_()

    assert there.tolist() == ([0, 0] if is_pinned else [1, 1])


def test_a_blocking_copy_waits_for_its_stream_alone(side: torch.Stream) -> None:
    with side:
        there = pinned(5).to(HERE, non_blocking=True)

    assert there.cpu().isnan().all()
    with side:
        assert there.cpu().item() == 5


def test_the_destination_of_whole_numbers_holds_a_pattern(side: torch.Stream) -> None:
    with side:
        there = pinned(1, dtype=torch.int64).to(HERE, non_blocking=True)

    assert int(there.item()) & 0xFF == 0xA5
    with pytest.raises(IndexError):
        torch.zeros(3, device=HERE)[there]
    side.synchronize()


def test_a_copy_in_another_dtype_and_stride(chip: ModuleType) -> None:
    there = torch.empty(3, 2, device=HERE).t()

    there.copy_(torch.arange(6).view(2, 3).pin_memory(), non_blocking=True)

    assert there.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_threads_have_streams_of_their_own(side: torch.Stream) -> None:
    import threading

    seen: list[bool] = []
    with side:
        there = pinned(1).to(HERE, non_blocking=True)
        thread = threading.Thread(target=lambda: seen.append(bool(there.isnan().all().item())))
        thread.start()
        thread.join()

    assert seen == [True]


def test_copy_between_devices_makes_both_streams_wait(side: torch.Stream) -> None:
    source = torch.ones(2, device="cpu_sim:1")

    there = source.to(HERE, non_blocking=True)

    with side:
        assert there.isnan().all().item()
    assert there.tolist() == [1, 1]
    source += 2
    there = source.to(HERE, non_blocking=True)
    del source
    side.wait_stream(torch.accelerator.current_stream(HERE))
    with side:
        assert there.tolist() == [3, 3]


def test_a_destination_on_another_device_may_go_before_the_copy(chip: ModuleType) -> None:
    before = chip.memory_allocated(HERE)
    source = torch.ones(1000, device="cpu_sim:1")

    source.to(HERE, non_blocking=True)
    chip.synchronize("cpu_sim:1")

    chip.synchronize(HERE)
    assert chip.memory_allocated(HERE) == before


@pytest.mark.parametrize(
    "resize",
    [lambda there: there.resize_(8), lambda there: there.untyped_storage().resize_(32)],
    ids=["the tensor", "the storage"],
)
def test_a_copy_before_a_resize_is_not_lost(chip: ModuleType, resize: Callable[[torch.Tensor], object]) -> None:
    there = torch.zeros(2, device=HERE)
    there.copy_(pinned(1, 2), non_blocking=True)

    resize(there)
    chip.synchronize()

    assert there[:2].tolist() == [1, 2]


@pytest.mark.parametrize("dtype", ["float4_e2m1fn_x2", "bits8", "bits1x8", "bits16"])
def test_a_destination_that_torch_cannot_fill_holds_a_pattern(side: torch.Stream, dtype: str) -> None:
    of = torch.int16 if dtype == "bits16" else torch.uint8
    source = torch.tensor([3, 4], dtype=of).view(getattr(torch, dtype)).pin_memory()
    with side:
        there = source.to(HERE, non_blocking=True)

    assert {value & 0xFF for value in there.view(of).cpu().tolist()} == {0xA5}
    side.synchronize()
    assert there.view(of).tolist() == [3, 4]


def lstm() -> tuple[torch.nn.LSTM, torch.nn.LSTM]:
    torch.manual_seed(0)
    theirs = torch.nn.LSTM(2, 3)
    ours = torch.nn.LSTM(2, 3).to(HERE)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def test_a_recurrent_layer_finds_the_copies_before_it_done(side: torch.Stream) -> None:
    ours, theirs = lstm()
    state = torch.zeros(1, 1, 3), torch.zeros(1, 1, 3)
    there = state[0].to(HERE), state[1].to(HERE)
    source = torch.ones(1, 1, 2).pin_memory()
    expected = theirs(source, state)[0]

    given = ours(source.to(HERE, non_blocking=True), there)[0]
    with side:
        x = source.to(HERE, non_blocking=True)
    torch.accelerator.current_stream().wait_stream(side)
    waited = ours(x, there)[0]
    waited.backward(torch.ones(1, 1, 3).pin_memory().to(HERE, non_blocking=True))
    expected.sum().backward()

    assert torch.equal(given.cpu(), expected)
    assert torch.equal(waited.cpu(), expected)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        assert yours.grad is not None
        assert torch.equal(mine.grad.cpu(), yours.grad)


def test_waiting_for_work_that_fails_raises(in_fork: Callable[..., str]) -> None:
    # The first copy asks Python which rank this is, as a fault is planned for it. That holds one thread up at work
    # until the other one waits for the same stream.
    program = """
    import threading, time
    from pathlib import Path
    from northbridge_cpu_sim import Fault, planned_faults
    from northbridge_cpu_sim.faults import plan
    side, first, second = (torch.Stream("cpu_sim:0") for _ in range(3))
    kept, freed = torch.ones(2, device="cpu_sim"), torch.ones(2, 3, device="cpu_sim")
    with first:
        kept.to("cpu", non_blocking=True)
    with second:
        freed.to("cpu", non_blocking=True)
    del freed
    side.wait_stream(first)
    side.wait_stream(second)
    said, at_work = [], threading.Event()
    def synchronize():
        try:
            side.synchronize()
            said.append("nothing")
        except RuntimeError as error:
            said.append("had not begun" in str(error))
    waiter = threading.Thread(target=lambda: (at_work.wait(), synchronize()))
    waiter.start()
    def sleeps():
        return Path(f"/proc/self/task/{waiter.native_id}/stat").read_text().rsplit(")")[1].split()[0] == "S"
    def hold_up():
        at_work.set()
        seen = 0
        while seen < 20:
            time.sleep(0.01)
            seen = seen + 1 if sleeps() else 0
        return 0, 0
    with planned_faults(Fault("corrupt", op="copy_", value=1)):
        plan._chip.set_fault_place(hold_up)
        synchronize()
    waiter.join()
    print(said)
    """

    said = in_fork(program, NORTHBRIDGE_CPU_SIM_FREED="trap")

    assert said.strip() == "[True, True]"


def test_what_failed_work_lets_go_of_may_ask_for_its_stream(in_fork: Callable[..., str]) -> None:
    program = """
    import weakref
    side = torch.Stream("cpu_sim:0")
    freed = torch.ones(2, 3, device="cpu_sim")
    with side:
        here = freed.to("cpu", non_blocking=True)
    weakref.finalize(here, lambda: print(side.query()))
    del freed, here
    try:
        side.synchronize()
    except RuntimeError as error:
        print("had not begun" in str(error))
    """

    said = in_fork(program, NORTHBRIDGE_CPU_SIM_FREED="trap")

    assert said.split() == ["True", "True"]
