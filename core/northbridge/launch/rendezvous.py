"""The store in which the ranks of a process group meet, and agree on one chip and one library.

Ranks with different libraries would wait for each other until the group's timeout, so they are compared first. The
store of torchrun survives the ranks: it still has the addresses of ended ranks, and newer releases of torch let new
ranks read them. So the ranks of each attempt agree on their own prefix in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Timer
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from northbridge.errors import CollectiveError
from northbridge.flight_recorder.analysis.calls import say_ranks
from northbridge.process_record import logger
from northbridge.untrusted.text import clean, shorten

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

ANSWER_SECONDS = 30.0
"""Time limit for the answer of a rank that has reached the store."""

_REACH_SECONDS = 5.0
_LATE_SECONDS = 2.0  # for the other answers, after two that differ: the error is to name every rank
_READ_SECONDS = 10.0  # for the other ranks to read why rank 0 fails, before its store is gone
_LOOK_SECONDS = 0.01
_LONGEST_LOOK_SECONDS = 0.1  # between two looks of rank 0, if nothing happens
_ROOM = "northbridge/meeting"
_VERDICT, _AGREED = "verdict", "agreed"
_FIX = "give the same accelerator= and process_group_backend= on every node, or strategy='ddp_mixed'"


def meet(
    trains_on: str,
    *,
    rank: int,
    world_size: int,
    timeout: timedelta | None,
    node_size: int | None = None,
    store: Store | None = None,
) -> Store | None:
    """Return the store for the group of these ranks; None leaves it to torch, for a rank that is alone.

    The start of the process group calls it on every rank. ``trains_on`` names the rank's chip and library, and
    ``node_size`` is the number of ranks on a node. ``store`` is where the ranks meet; None means the launcher's, at
    ``MASTER_ADDR``. A rank may reach it as late as ``timeout`` allows; None means torch's default.

    Raises :class:`CollectiveError` if ranks train on another chip or library, do not answer, or do not appear, and
    ``TimeoutError`` on rank 0 if no rank of another node appears.
    """
    from torch.distributed.constants import default_pg_timeout

    patience = timeout or default_pg_timeout
    meeting: _Meeting
    if store is not None:
        meeting = _Meeting(store, patience)
    elif os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        meeting = _AgentMeeting(rank, world_size, patience)
    elif world_size == 1:
        return None
    else:
        meeting = _OwnMeeting(rank, world_size, patience)
    try:
        if rank == 0:
            _compare(meeting, trains_on, world_size, node_size or world_size)
        else:
            _answer(meeting, trains_on, rank)
        return meeting.group_store
    finally:
        meeting.leave()


class _Messages:
    """Texts in a store, each under the next number: one look finds those of any number of ranks."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._seen: int | None = None
        self._unread: list[str] = []

    def put(self, text: str) -> None:
        self._store.set(f"{self._name}/{self._store.add(f'{self._name}/count', 1)}", text)

    def read(self) -> list[str]:
        """Return the texts that have come since the last call; one rank alone may read."""
        if self._seen is None:  # a rank 0 of an attempt before may have read some, in torchrun's store
            self._seen = self._store.add(f"{self._name}/seen", 0)
        count = self._store.add(f"{self._name}/count", 0)
        self._unread += [f"{self._name}/{number}" for number in range(self._seen + 1, count + 1)]
        self._seen = max(self._seen, count)
        here = self._unread
        if here and not self._store.check(here):  # a rank has a number, and no text yet
            here = [each for each in here if self._store.check([each])]
        if not here:
            return []
        self._unread = sorted({*self._unread} - {*here})
        found = self._store.multi_get(here)
        self._store.add(f"{self._name}/seen", len(found))
        return [each.decode(errors="replace") for each in found]


class _Meeting:
    """A store that the ranks were given, and which of them have reached it is not known."""

    def __init__(self, store: Store, patience: timedelta) -> None:
        from torch._C._distributed_c10d import PrefixStore

        self.patience = patience
        self.group_store = store
        self.store: Store = PrefixStore("northbridge/chips", store)
        self.answers = _Messages(self.store, "answers")
        self.seconds_of_rank_0 = patience.total_seconds()
        """Time limit for the answer of rank 0 to a rank that has reached the store."""

    def leave(self) -> None:
        """Let the store go: a traceback would keep it, and its port, as long as itself."""
        del self.group_store, self.store, self.answers

    def is_complete(self) -> bool:
        """Return True once every rank is known to have reached the store."""
        return False


class _OwnMeeting(_Meeting):
    """The store that rank 0 serves at MASTER_ADDR. The ranks of other strategies reach it, too."""

    def __init__(self, rank: int, world_size: int, patience: timedelta) -> None:
        from torch._C._distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        self._all = False
        self._count = world_size
        if rank == 0:
            store = _serve(world_size, patience, waits=False)
        else:
            with _saying_that_it_waits(rank, patience):
                store, *_ = next(rendezvous("env://", rank, world_size, timeout=patience))
        super().__init__(store, patience)
        self.group_store = PrefixStore("default_pg", store)  # as torch does
        self.seconds_of_rank_0 = min(ANSWER_SECONDS, self.seconds_of_rank_0)  # it answers as soon as it serves

    def is_complete(self) -> bool:
        """Wait some seconds until torch has counted as many connections to the store as there are ranks."""
        from torch.distributed import DistStoreError

        if self._all:
            return True
        try:
            _serve(self._count, min(self.patience, timedelta(seconds=_REACH_SECONDS)), waits=True)
            self._all = True
        except DistStoreError:  # the time is over
            self._count += 1  # torch counts this connection from now on
        return self._all


@contextmanager
def _saying_that_it_waits(rank: int, patience: timedelta) -> Iterator[None]:
    """Say once that this rank waits, if what happens inside the ``with`` takes long."""
    where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    said = "rank %d still waits for rank 0 at %s, up to %g s", rank, where, patience.total_seconds()
    tell = Timer(ANSWER_SECONDS, logger.warning, said)
    tell.daemon = True
    tell.start()
    try:
        yield
    finally:
        tell.cancel()


def _serve(count: int, timeout: timedelta, *, waits: bool) -> Store:
    """Serve the store at MASTER_ADDR, or connect to it if this process does already."""
    from torch._C._distributed_c10d import TCPStore

    return TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size=count,
        is_master=True,
        timeout=timeout,
        wait_for_workers=waits,
        multi_tenant=True,
        use_libuv=os.environ.get("USE_LIBUV", "1") == "1",  # as torch.distributed.rendezvous
    )


class _AgentMeeting(_Meeting):
    """The part of the torchrun agent's store for the ranks of this attempt, under a word that rank 0 chooses."""

    def __init__(self, rank: int, world_size: int, patience: timedelta) -> None:
        from torch._C._distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        store, *_ = next(rendezvous("env://", rank, world_size, timeout=patience))
        self._whole: Store = store
        self._questions = _Messages(self._whole, f"{_ROOM}/questions")
        self._word = uuid4().hex if rank == 0 else self._ask(rank, patience)
        super().__init__(PrefixStore(f"northbridge/{self._word}", self._whole), patience)

    def _ask(self, rank: int, patience: timedelta) -> str:
        question = uuid4().hex
        self._questions.put(question)
        try:
            with _saying_that_it_waits(rank, patience):
                self._whole.wait([f"{_ROOM}/answer/{question}"], patience)
        except RuntimeError as error:
            raise CollectiveError(
                f"rank {rank} waited {patience.total_seconds():g} s for rank 0. Fix: read torchrun's output"
            ) from error
        return self._whole.get(f"{_ROOM}/answer/{question}").decode()

    def leave(self) -> None:
        super().leave()
        del self._whole, self._questions

    def is_complete(self) -> bool:
        """Tell the word to the ranks that ask for it.

        A question may be from an ended rank. Then no rank uses the word, and a newer question follows.
        """
        asked = self._questions.read()
        if asked:
            whole: Any = self._whole  # torch's stub lacks multi_set
            whole.multi_set([f"{_ROOM}/answer/{each}" for each in asked], [self._word] * len(asked))
        return super().is_complete()


def _compare(meeting: _Meeting, own: str, world_size: int, node_size: int) -> None:
    """Gather on rank 0 what the ranks train on, and tell them whether they agree."""
    answers = {0: own}
    meeting.store.set("0", own)
    try:
        _gather(meeting, answers, world_size, node_size)
    except (CollectiveError, TimeoutError) as error:
        meeting.store.set(_VERDICT, str(error))
        read = [f"read/{rank}" for rank in answers if rank]
        deadline = time.monotonic() + _READ_SECONDS
        while read and not meeting.store.check(read) and time.monotonic() < deadline:
            time.sleep(_LONGEST_LOOK_SECONDS)
        raise
    meeting.store.set(_VERDICT, _AGREED)


def _gather(meeting: _Meeting, answers: dict[int, str], world_size: int, node_size: int) -> None:
    began, limit = time.monotonic(), meeting.patience.total_seconds()
    complete_at: float | None = None
    differ_at: float | None = None
    told = False
    missing = list(range(1, world_size))
    pause = 0.0
    while missing:
        time.sleep(pause)
        if meeting.is_complete() and complete_at is None:
            complete_at = time.monotonic()
        now = time.monotonic()  # before the look: no rank is missing that has answered in time
        new = meeting.answers.read()
        pause = _LOOK_SECONDS if new else min(max(2 * pause, _LOOK_SECONDS), _LONGEST_LOOK_SECONDS)
        for rank, _, trains_on in (each.partition(" ") for each in new):
            answers[int(rank)] = shorten(trains_on)
        missing = [rank for rank in missing if rank not in answers]
        if len(set(answers.values())) > 1:
            differ_at = now if differ_at is None else differ_at
            if not missing or now - differ_at > min(_LATE_SECONDS, limit):
                _reject_other_chips(answers)
            continue
        if missing and complete_at is not None and now - complete_at > min(ANSWER_SECONDS, limit):
            raise _error_of_silence(missing, min(ANSWER_SECONDS, limit), 0, answers[0])
        if missing and now - began > limit:
            found = f"{say_ranks(missing)} did not answer in {limit:g} s"
            if isinstance(meeting, _OwnMeeting) and max(answers) < node_size < world_size:
                raise TimeoutError(found)  # the address may lead the other nodes elsewhere
            raise CollectiveError(f"{found}: not started, or without a strategy of Northbridge. Fix: read their output")
        if missing and not told and now - began > ANSWER_SECONDS:
            told = True
            logger.warning("rank 0 still waits for %s, up to %g s", say_ranks(missing), limit)


def _reject_other_chips(answers: Mapping[int, str]) -> None:
    ranks: dict[str, list[int]] = {}
    for rank, answer in sorted(answers.items()):
        ranks.setdefault(answer, []).append(rank)
    if len(ranks) > 1:
        (first, alike), *others = ranks.items()
        found = [f"{say_ranks(alike)} {'trains' if len(alike) == 1 else 'train'} on {first}"]
        found += [f"{say_ranks(each)} on {answer}" for answer, each in others]
        raise CollectiveError(f"{', '.join(found)}. Fix: {_FIX}")


def _error_of_silence(missing: Sequence[int], seconds: float, rank: int, own: str) -> CollectiveError:
    return CollectiveError(
        f"{say_ranks(missing)} did not answer in {seconds:g} s, and rank {rank} trains on {own}. Only strategies of"
        f" Northbridge answer. Fix: {_FIX}"
    )


def _answer(meeting: _Meeting, own: str, rank: int) -> None:
    """Tell rank 0 what this rank trains on, and wait until it tells whether the ranks agree."""
    from torch.distributed import DistStoreError

    store, seconds = meeting.store, meeting.seconds_of_rank_0
    try:
        meeting.answers.put(f"{rank} {own}")
        store.wait(["0"], timedelta(seconds=seconds))
        seconds = meeting.patience.total_seconds() + 2 * ANSWER_SECONDS  # rank 0 gives up before
        store.wait([_VERDICT], timedelta(seconds=seconds))
        verdict = clean(store.get(_VERDICT).decode(errors="replace"))
        if verdict != _AGREED:
            store.set(f"read/{rank}", "")
    except DistStoreError as error:
        raise _error_of_silence([0], seconds, rank, own) from error
    except RuntimeError as error:
        raise CollectiveError(
            f"rank 0 ended before the ranks had met, and rank {rank} lost it. Fix: read the output of rank 0"
        ) from error
    if verdict != _AGREED:
        raise CollectiveError(verdict)
