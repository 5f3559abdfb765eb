"""Ranks that meet in a store: each is a thread of this process."""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from torch._C._distributed_c10d import HashStore, PrefixStore, Store, TCPStore
from torch.distributed.rendezvous import rendezvous as torchs_own

from northbridge.errors import CollectiveError
from northbridge.launch import rendezvous
from northbridge_conformance.runs.processes import reserve_port

FIX = ". Fix: give the same accelerator= and process_group_backend= on every node, or strategy='ddp_mixed'"
ABSENT = "ranks 2, 3 did not answer in 1 s: not started, or without a strategy of Northbridge. Fix: read their output"
SOON = timedelta(seconds=60)

Meet = Callable[..., "Future[Store | None]"]


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    port = reserve_port()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setattr(rendezvous, "_REACH_SECONDS", 1.0)
    return port


@pytest.fixture
def agent(port: int, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of torchrun's agent."""
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    return TCPStore("127.0.0.1", port, None, True, wait_for_workers=False)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def begin(port: int, threads: ThreadPoolExecutor) -> Meet:
    """Let a rank meet the others, in a thread."""

    def beginning(
        rank: int, ranks: int, trains_on: str = "hpu (hccl)", timeout: timedelta = SOON, node_size: int = 1
    ) -> Future[Store | None]:
        return threads.submit(
            rendezvous.meet, trains_on, rank=rank, world_size=ranks, timeout=timeout, node_size=node_size
        )

    return beginning


def errors(*ranks: Future[Store | None]) -> list[str]:
    found = [rank.exception() for rank in ranks]
    assert all(isinstance(each, CollectiveError) for each in found), found
    return [str(each) for each in found]


MIXED = {
    "two libraries": (["hpu (hccl)", "hpu (gloo)"], "rank 0 trains on hpu (hccl), rank 1 on hpu (gloo)"),
    "three ranks": (["a (x)", "b (y)", "a (x)"], "ranks 0, 2 train on a (x), rank 1 on b (y)"),
    "one not started": (["hpu (hccl)", "sdaa (tccl)", ""], "rank 0 trains on hpu (hccl), rank 1 on sdaa (tccl)"),
}


@pytest.mark.parametrize(("trained_on", "found"), MIXED.values(), ids=MIXED)
def test_ranks_on_other_chips_are_named_on_each(begin: Meet, trained_on: list[str], found: str) -> None:
    count = len(trained_on)
    others = [begin(rank, count, trained_on[rank]) for rank in range(1, count) if trained_on[rank]]

    ranks = [begin(0, count, trained_on[0]), *others]

    assert set(errors(*ranks)) == {found + FIX}


def test_late_rank_is_named(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers after rank 0 has seen that two others differ."""
    monkeypatch.setattr(rendezvous, "_LATE_SECONDS", 30.0)
    store = HashStore()

    early = [in_store(threads, store, 0, 3), in_store(threads, store, 1, 3, trains_on="b (y)")]
    time.sleep(0.3)
    late = in_store(threads, store, 2, 3, trains_on="b (y)")

    assert set(errors(*early, late)) == {f"rank 0 trains on hpu (hccl), ranks 1, 2 on b (y){FIX}"}


def test_ranks_that_agree_get_one_store(begin: Meet) -> None:
    ranks = [begin(rank, 3) for rank in range(3)]
    stores = [rank.result() for rank in ranks]

    stores[1].set("key", "word")  # type: ignore[union-attr]

    assert [each.get("key") for each in stores if each] == [b"word"] * 3


@pytest.mark.parametrize("late", [0, 1])
def test_rank_that_starts_late_is_waited_for(
    begin: Meet, port: int, late: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit for an answer is not one for the start, which is the user's timeout."""
    monkeypatch.setattr(rendezvous, "ANSWER_SECONDS", 1.0)
    with caplog.at_level(logging.WARNING, "northbridge"):
        early = begin(1 - late, 2)
        while not caplog.messages:
            time.sleep(0.01)
        ranks = [begin(late, 2), early]  # which keep the store, as a process group does
        assert all(each.result() for each in ranks)

    where = f" at 127.0.0.1:{port}" if late == 0 else ""
    assert caplog.messages == [f"rank {1 - late} still waits for rank {late}{where}, up to 60 s"]


@pytest.mark.parametrize("silent", [0, 1])
def test_rank_of_another_strategy_is_named(
    begin: Meet, threads: ThreadPoolExecutor, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the store, as a rank of Lightning's on the CPU is, and waits for a group of another library."""
    monkeypatch.setattr(rendezvous, "ANSWER_SECONDS", 0.5)
    reached = threads.submit(lambda: next(torchs_own("env://", silent, 2, timeout=SOON)))

    rank = begin(1 - silent, 2)

    (error,) = errors(rank)
    assert error == (
        f"rank {silent} did not answer in 0.5 s, and rank {1 - silent} trains on hpu (hccl). Only strategies of"
        f" Northbridge answer{FIX}"
    )
    reached.result()


def test_no_other_node_reaches_the_address(begin: Meet) -> None:
    """The strategy names the address in its place."""
    ranks = [begin(rank, 4, timeout=timedelta(seconds=1), node_size=2) for rank in range(2)]

    found = ranks[0].exception()

    assert (type(found), str(found)) == (TimeoutError, "ranks 2, 3 did not answer in 1 s")
    assert errors(ranks[1]) == [str(found)]


@pytest.mark.parametrize(("store", "node_size"), [("own", 1), ("agent", 2)])
def test_ranks_that_never_start_are_named(
    begin: Meet, request: pytest.FixtureRequest, store: str, node_size: int
) -> None:
    """The address of torchrun is not doubted: its agents have met there."""
    if store == "agent":
        request.getfixturevalue("agent")

    ranks = [begin(rank, 4, timeout=timedelta(seconds=1), node_size=node_size) for rank in range(2)]

    assert errors(*ranks) == [ABSENT] * 2


def test_rank_0_that_ends_meanwhile_is_named(begin: Meet, port: int) -> None:
    store = TCPStore("127.0.0.1", port, 2, True, wait_for_workers=False)
    meeting = PrefixStore("northbridge/chips", store)
    meeting.set("0", "hpu (hccl)")
    rank = begin(1, 2)
    meeting.wait(["answers/1"])

    del meeting, store

    assert errors(rank) == ["rank 0 ended before the ranks had met, and rank 1 lost it. Fix: read the output of rank 0"]


def test_kept_error_does_not_keep_the_port(begin: Meet, port: int) -> None:
    ranks = [begin(0, 2), begin(1, 2, "sdaa (tccl)")]
    errors(*ranks)

    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0

    again = [begin(rank, 2) for rank in range(2)]
    assert all(each.result() for each in again)


@pytest.mark.usefixtures("agent")
def test_each_attempt_of_torchrun_agrees_anew(begin: Meet) -> None:
    """Its store keeps what the ranks of the attempts before have said."""
    first = errors(begin(0, 2), begin(1, 2, "sdaa (tccl)"))
    stores = [each.result() for each in [begin(0, 2), begin(1, 2)]]
    third = errors(begin(0, 2), begin(1, 2, "npu (lccl)"))

    assert first == [f"rank 0 trains on hpu (hccl), rank 1 on sdaa (tccl){FIX}"] * 2
    assert all(stores)
    assert third == [f"rank 0 trains on hpu (hccl), rank 1 on npu (lccl){FIX}"] * 2


@pytest.mark.usefixtures("agent")
def test_rank_without_torchruns_rank_0_says_so(
    begin: Meet, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its rank 0 may have another strategy, and answers no question."""
    monkeypatch.setattr(rendezvous, "ANSWER_SECONDS", 0.1)

    with caplog.at_level(logging.WARNING, "northbridge"):
        found = errors(begin(1, 2, timeout=timedelta(seconds=1)))

    assert found == ["rank 1 waited 1 s for rank 0. Fix: read torchrun's output"]
    assert caplog.messages == [f"rank 1 still waits for rank 0 at 127.0.0.1:{port}, up to 1 s"]


def in_store(threads: ThreadPoolExecutor, store: Store, rank: int, ranks: int, **more: Any) -> Future[Store | None]:
    """Let a rank meet the others in a store that it is given, as Ray's workers do."""
    facts = {"trains_on": "hpu (hccl)", "timeout": SOON, **more}
    return threads.submit(rendezvous.meet, rank=rank, world_size=ranks, store=store, **facts)


class CountingStore(Store):
    """A store in this process that notes each question to it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.trips = HashStore(), list[str]()

    def ask(self, what: str, *arguments: Any) -> Any:
        self.trips.append(what)
        return getattr(self.inner, what)(*arguments)


for question in ("set", "get", "add", "check", "multi_get"):
    setattr(CountingStore, question, lambda store, *arguments, what=question: store.ask(what, *arguments))


def test_2000_ranks_are_asked_for_at_once(threads: ThreadPoolExecutor) -> None:
    """Rank 0 shares its store with all ranks: to ask for each would be thousands of questions at each look."""
    store, ranks = CountingStore(), 2000
    messages = rendezvous._Messages(PrefixStore("northbridge/chips", store.inner), "answers")
    first = in_store(threads, store, 0, ranks)

    time.sleep(1)
    waited = len(store.trips)
    for rank in range(1, ranks):
        messages.put(f"{rank} hpu (hccl)")
    first.result()

    assert 5 < waited <= 20
    assert len(store.trips) < 100
    assert store.inner.get("northbridge/chips/verdict") == b"agreed"


def test_all_of_2000_silent_ranks_are_named(threads: ThreadPoolExecutor) -> None:
    store = CountingStore()
    messages = rendezvous._Messages(PrefixStore("northbridge/chips", store.inner), "answers")
    messages.put("7 hpu (hccl)")

    rank = in_store(threads, store, 0, 2000, timeout=timedelta(seconds=1))
    store.inner.wait(["northbridge/chips/verdict"])
    store.inner.set("northbridge/chips/read/7", "")

    (error,) = errors(rank)
    assert error.startswith("ranks 1-6, 8-1999 did not answer in 1 s: ")
    assert len(store.trips) < 40


def test_rank_between_number_and_text_delays_no_other(threads: ThreadPoolExecutor) -> None:
    """It has ended there: the others are read all the same."""
    store = HashStore()
    store.add("answers/count", 1)
    messages = rendezvous._Messages(store, "answers")
    messages.put("2 hpu (hccl)")

    assert messages.read() == ["2 hpu (hccl)"]
    assert messages.read() == []

    store.set("answers/1", "1 hpu (hccl)")
    assert messages.read() == ["1 hpu (hccl)"]


def test_8192_ranks_of_torchrun_agree_in_a_second(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    store, ranks = HashStore(), 8192
    torchs_module = sys.modules["torch.distributed.rendezvous"]
    monkeypatch.setattr(torchs_module, "rendezvous", lambda *_, **__: iter([(store, 0, ranks)]))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    begun = time.process_time()
    for rank in range(1, ranks):
        store.set(f"northbridge/meeting/questions/{rank}", str(rank))
    store.add("northbridge/meeting/questions/count", ranks - 1)
    first = threads.submit(rendezvous.meet, "hpu (hccl)", rank=0, world_size=ranks, timeout=None)
    prefix = ""
    for rank in range(1, ranks):
        prefix = f"northbridge/{store.get(f'northbridge/meeting/answer/{rank}').decode()}/northbridge/chips"
        store.set(f"{prefix}/answers/{rank}", f"{rank} hpu (hccl)")
    store.add(f"{prefix}/answers/count", ranks - 1)

    assert first.result()
    assert store.get(f"{prefix}/verdict") == b"agreed"
    assert time.process_time() - begun < 1
