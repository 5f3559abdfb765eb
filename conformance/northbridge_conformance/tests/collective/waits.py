"""Barriers, late or missing ranks, and collectives in progress."""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import require_devices, shows
from northbridge_conformance.tests.collective.ranks import Facts, Rank, Ranks, attempt, meet, results_of

LATE_S = 0.4
"""The delay of a late rank."""

PATIENCE_S = 30.0
"""The limit for a barrier on a busy machine, after all ranks have arrived."""

PENDING = 50
"""The number of collectives in progress at the same time."""

CHAIN = 8
"""The number of times that one tensor is reduced."""

SHORT_S = 5.0
"""The process group's timeout, for a rank that never arrives."""

BOUND_S = 4 * SHORT_S
"""The limit by which the other ranks must get an error."""

STAY_S = 5 * SHORT_S
"""The longest time that the missing rank stays. Its exit, which the others also notice, comes after the bound."""

GIVE_UP_S = 9 * SHORT_S
"""The time after which a rank that still waits is ended, with its stack: its library waits forever."""

_FLIGHT = "NORTHBRIDGE_FLIGHT_RECORDER"


def wait(scenario: Scenario, folder: Path) -> None:
    """Report each rank's arrival and departure times, and the values that it read without an explicit wait."""
    rank = meet(scenario)
    found: dict[str, Any] = {}
    for late in (0, rank.ranks - 1):
        found[f"barrier, rank {late} late"] = attempt(partial(pass_barrier, rank, late))
    for name, begin in (
        ("all_reduce", lambda rank: rank.collective.all_reduce(rank.tensor([rank.number + 1.0] * 3))),
        ("all_gather", lambda rank: torch.cat(rank.collective.all_gather(rank.tensor([rank.number + 1.0])))),
        ("broadcast", _broadcast),
        ("torch's all_gather", _all_gather_of_torch),
    ):
        found[f"{name}, read at once"] = attempt(partial(_read_at_once, rank, begin))
    found["asked before it is there"] = attempt(partial(_ask_early, rank))
    found["temporaries"] = attempt(partial(_drop_temporaries, rank))
    found["waited for in turn"] = attempt(partial(_wait_backwards, rank))
    found["one after another"] = attempt(partial(_chain, rank))
    write(folder, "wait", rank.number, found)


def pass_barrier(rank: Rank, late: int, group: Any = None) -> dict[str, float]:
    """Return when this rank came to a barrier of ``group`` and when it left; the rank ``late`` comes late."""
    rank.collective.barrier(group)
    if rank.number == late:
        time.sleep(LATE_S)
    came = time.monotonic()  # one clock for all processes of a machine
    rank.collective.barrier(group)
    return {"came": came, "went": time.monotonic()}


def _read_at_once(rank: Rank, begin: Callable[[Rank], torch.Tensor]) -> Any:
    """Start a collective to which the last rank is late; compute with its result and read it immediately."""
    rank.collective.barrier()
    if rank.is_last:
        time.sleep(LATE_S / 2)
    return (begin(rank) * 2).tolist()


def _broadcast(rank: Rank) -> torch.Tensor:
    sent = rank.tensor([rank.number + 1.0])
    dist.broadcast(sent, rank.ranks - 1)
    return sent


def _all_gather_of_torch(rank: Rank) -> torch.Tensor:
    gathered = torch.zeros(rank.ranks, device=rank.device)
    dist.all_gather_into_tensor(gathered, rank.tensor([rank.number + 1.0]))
    return gathered


def _ask_early(rank: Rank) -> dict[str, Any]:
    """Start a collective to which the last rank is late; record ``is_completed()`` before and after the wait."""
    tensor = rank.tensor([1.0])
    rank.collective.barrier()
    if rank.is_last:
        time.sleep(LATE_S)
    came = time.monotonic()
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    early = work.is_completed()
    asked = time.monotonic()
    work.wait()
    total = tensor.item()
    rank.chip.synchronize()
    return {"came": came, "asked": asked, "early": early, "afterwards": work.is_completed(), "sum": total}


def _drop_temporaries(rank: Rank) -> list[Any]:
    """Start collectives on otherwise unreferenced tensors, while other tensors are created and dropped."""
    pending = []
    for number in range(PENDING):
        temporary = torch.full((1000,), float(number + rank.number), device=rank.device)
        pending.append((temporary[:3], dist.all_reduce(temporary, async_op=True)))
        del temporary
        torch.full((1000,), -1.0, device=rank.device)
    sums = []
    for view, work in pending:
        assert work is not None
        work.wait()
        sums.append(view.tolist())
    return sums


def _wait_backwards(rank: Rank) -> list[float]:
    """Start collectives of several kinds, and wait for the last one first."""
    tensors = [rank.tensor([float(number + rank.number)]) for number in range(PENDING)]
    works = []
    for number, tensor in enumerate(tensors):
        kind = dist.broadcast(tensor, 0, async_op=True) if number % 2 else dist.all_reduce(tensor, async_op=True)
        works.append(kind)
    for work in reversed(works):
        assert work is not None
        work.wait()
    return [tensor.item() for tensor in tensors]


def _chain(rank: Rank) -> Any:
    """Reduce one tensor repeatedly, and compute with it in between, on the chip alone."""
    tensor = rank.tensor([1.0])
    course = []
    for _ in range(CHAIN):
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        work.wait()
        tensor = tensor + 1
        course.append(tensor.clone())  # the next reduction is in place
    return torch.cat(course).tolist()


def miss_rank(scenario: Scenario, folder: Path) -> None:
    """Start a collective on all ranks but the last; they report their errors, and the last rank reports who is missing.

    Northbridge's flight recorder keeps what each rank calls. The time limit is that of the whole group, as Lightning's
    strategies pass it to the backend.
    """
    os.environ[_FLIGHT] = str(folder / "flight")
    rank = meet(scenario, timedelta(seconds=SHORT_S), until=lambda: _gather_at_the_door(folder))
    rank.collective.all_reduce(rank.tensor([1.0]))
    group: Any = dist.new_group(timeout=timedelta(seconds=SHORT_S))
    rank.collective.barrier(group)
    if rank.is_last:
        _wait_for(folder, "told", rank.ranks - 1)
        write(folder, "miss_rank", rank.number, {"found": _judge(folder / "flight")})
        (folder / f"judged-{rank.number}").touch()
        _wait_for(folder, "told again", rank.ranks - 1)
        return
    found = {"all_reduce": _wait_in_vain(rank, lambda: rank.collective.all_reduce(rank.tensor([1.0])))}
    (folder / f"told-{rank.number}").touch()
    _wait_until((folder / f"judged-{rank.ranks - 1}").exists, STAY_S)
    found["barrier"] = _wait_in_vain(rank, lambda: rank.collective.barrier(group))
    write(folder, "miss_rank", rank.number, found)
    (folder / f"told again-{rank.number}").touch()


def _wait_for(folder: Path, what: str, ranks: int) -> None:
    """Wait until each of the first ``ranks`` ranks has written the file ``what``, or until the limit."""
    _wait_until(lambda: all((folder / f"{what}-{each}").exists() for each in range(ranks)), STAY_S)


def _gather_at_the_door(folder: Path) -> None:
    """Wait until every rank has loaded the chip's software, which may take longer than the short time limit."""
    (folder / f"here-{os.environ['RANK']}").touch()
    ranks = range(int(os.environ["WORLD_SIZE"]))
    _wait_until(lambda: all((folder / f"here-{each}").exists() for each in ranks), 100.0)


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


def _wait_in_vain(rank: Rank, call: Callable[[], object]) -> dict[str, Any]:
    began = time.monotonic()
    faulthandler.dump_traceback_later(GIVE_UP_S, exit=True)
    try:
        call()
        rank.chip.synchronize()
    except RuntimeError as error:
        return {"error": str(error), "seconds": time.monotonic() - began}
    finally:
        faulthandler.cancel_dump_traceback_later()
    return {"error": "", "seconds": time.monotonic() - began}


def _judge(flight: Path) -> list[dict[str, Any]]:
    """Return the findings of ``northbridge hang`` about the record."""
    from northbridge.flight_recorder.analysis.judgement import judge
    from northbridge.flight_recorder.analysis.record_files import read_folder

    judgement = judge(read_folder(flight), time.time())
    return [{"kind": each.kind, "blamed": each.blamed, "text": each.text} for each in judgement.findings]


class Waits(Ranks):
    """A result is read only after it is complete, and a rank passes a barrier only after all ranks have come."""

    advice = (
        "Look at what the vendor's process group returns: a Work that owns its tensors, and whose wait() has later"
        " kernels wait for the collective. And look at the Collective's barrier()."
    )
    step = "wait"

    @shows("barrier")
    @pytest.mark.parametrize("late", [0, -1], ids=["the first", "the last"])
    def test_barrier_waits_for_a_late_rank(self, ranks: Facts, devices: int, late: int) -> None:
        found = results_of(ranks, f"barrier, rank {late % devices} late")

        assert min(each["went"] for each in found) >= found[late]["came"]

    @shows("barrier")
    def test_barrier_returns_once_all_ranks_have_arrived(self, ranks: Facts, devices: int) -> None:
        for late in (0, devices - 1):
            found = results_of(ranks, f"barrier, rank {late} late")
            assert max(each["went"] for each in found) < max(each["came"] for each in found) + PATIENCE_S

    @shows("{claim}")
    @pytest.mark.parametrize(
        ("collective", "claim"),
        [
            ("all_reduce", "sum_all_reduce"),
            ("all_gather", "all_gather"),
            ("broadcast", "broadcast"),
            ("torch's all_gather", "all_gather"),
        ],
    )
    def test_immediate_read_waits_for_a_late_rank(
        self, ranks: Facts, devices: int, collective: str, claim: str
    ) -> None:
        twice = [2 * (rank + 1) for rank in range(devices)]
        right = {"sum_all_reduce": [sum(twice)] * 3, "all_gather": twice, "broadcast": [twice[-1]]}

        assert results_of(ranks, f"{collective}, read at once") == [right[claim]] * devices

    @shows("sum_all_reduce")
    def test_is_completed_is_false_before_the_last_rank_calls(self, ranks: Facts, devices: int) -> None:
        found = results_of(ranks, "asked before it is there")

        # A delayed rank that asks after the last one has come proves nothing.
        assert not any(each["early"] for each in found if each["asked"] < found[-1]["came"])
        assert [(each["sum"], each["afterwards"]) for each in found] == [(devices, True)] * devices

    @shows("sum_all_reduce")
    def test_async_collectives_keep_dropped_tensors_alive(self, ranks: Facts, devices: int) -> None:
        sums = [[sum(number + rank for rank in range(devices))] * 3 for number in range(PENDING)]

        assert results_of(ranks, "temporaries") == [sums] * devices

    @shows("sum_all_reduce", "broadcast")
    def test_async_collectives_can_be_waited_for_in_any_order(self, ranks: Facts, devices: int) -> None:
        sums = [sum(number + rank for rank in range(devices)) for number in range(PENDING)]
        right = [number if number % 2 else total for number, total in enumerate(sums)]

        assert results_of(ranks, "waited for in turn") == [right] * devices

    @shows("sum_all_reduce")
    def test_collective_sees_the_computation_before_it(self, ranks: Facts, devices: int) -> None:
        course = [1]
        for _ in range(CHAIN):
            course.append(course[-1] * devices + 1)

        assert results_of(ranks, "one after another") == [course[1:]] * devices


class MissingRank(Ranks):
    """If a rank never comes, the others end within the time limit, and the flight recorder names it."""

    advice = (
        "Look at the Collective's initialize(): the library has to be given the timeout, and to raise where it is"
        " over. `northbridge hang` says which rank was missing, for any library whose calls go through"
        " torch.distributed."
    )
    step = "miss_rank"

    @pytest.fixture
    def ranks(self, backend: str, devices: int, environ: dict[str, str]) -> Facts:
        """Return the findings of every rank, from a separate run with a short time limit and recorded calls."""
        require_devices(backend, devices)
        return run(Scenario(backend, "", (reference(miss_rank),), devices, launch="ranks"), environ).ranks(self.step)

    @pytest.mark.parametrize("call", ["all_reduce", "barrier"])
    def test_other_ranks_raise_within_the_timeout(self, ranks: Facts, call: str) -> None:
        for found in (each[call] for each in ranks[:-1]):
            assert found["error"], f"it ended after {found['seconds']:.1f} s, and said nothing"
            assert found["seconds"] < BOUND_S

    def test_flight_recorder_names_the_missing_rank(self, ranks: Facts, devices: int) -> None:
        missing = devices - 1

        blamed = [each for each in ranks[-1]["found"] if each["kind"] == "not called"]

        assert [each["blamed"] for each in blamed] == [[missing]]
        assert blamed[0]["text"].startswith(f"rank {missing} of group 0")
        assert "has not called" in blamed[0]["text"]
        assert "all_reduce" in blamed[0]["text"]
