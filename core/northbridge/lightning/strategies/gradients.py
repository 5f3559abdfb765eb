"""The mean of gradients over ranks on several vendors' chips, as a communication hook of DDP.

The ranks of one vendor add up over its library. One of them, the leader, adds its sum to those of the other leaders
over Gloo, through the host, and sends the result back over the library.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from northbridge.backend import Backend, reject_denied
from northbridge.collective import Collective
from northbridge.errors import ArgumentsError
from northbridge.host_collective.collective import HostCollective
from northbridge.host_collective.copies import HostBuffers, HostCall
from northbridge.lightning.strategies.unsupported import TRAINING_CLAIMS

_END_SECONDS = 2.0


@dataclass(frozen=True)
class Vendors:
    """What each rank trains on, and the process groups of this rank."""

    names: tuple[str, ...]
    """The backend of each rank."""

    leader: int
    """The first rank of this rank's vendor."""

    inner: dist.ProcessGroup | None
    """The ranks of this vendor, over its library; None if this rank is alone."""

    leaders: dist.ProcessGroup | None
    """The first ranks of all vendors, over Gloo; None if this rank is not one of them, or the only one."""

    count: int
    """The number of leaders."""

    def mean_factor(self, weights: Mapping[str, float] | None) -> float:
        """Return the number by which this rank divides its gradients, so that their sum over the ranks is the mean.

        ``weights`` has the share of a rank of each backend; None counts ranks alike. Raises :class:`ArgumentsError`
        unless it names each backend of the job, and no other.
        """
        if weights is None:
            return float(len(self.names))
        if set(weights) != set(self.names):
            found, trained = (", ".join(sorted(set(each))) for each in (weights, self.names))
            raise ArgumentsError(f"weights= names {found}, the job has {trained}. Fix: name each")
        return sum(weights[name] for name in self.names) / weights[self.names[self.leader]]


def library_of(backend: Backend) -> Collective | None:
    """Return the vendor's communication library; None if the chip has none."""
    return None if isinstance(backend.collective, HostCollective) else backend.collective


def find_vendors(backend: Backend, device: torch.device, timeout: timedelta | None) -> Vendors:
    """Tell the other ranks what this one trains on, and make its groups; all ranks call it.

    Ranks without a library of their vendor's, such as the CPU's, are leaders, each of them. Raises
    :class:`UnsupportedError` if a library that is needed does not reduce or broadcast, and :class:`CollectiveError`
    if it does not sum.
    """
    rank, library = dist.get_rank(), library_of(backend)
    make_group: Any = dist.new_group  # its types allow a number for ranks that are not in the group
    facts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(facts, (backend.name, library is not None))
    leaders = [each for each, fact in enumerate(facts) if not fact[1] or facts.index(fact) == each]
    leader, inner = rank, None
    for first in leaders:
        alike = [each for each, fact in enumerate(facts) if fact == facts[first]] if facts[first][1] else [first]
        if len(alike) > 1:
            # All ranks make each group, as older releases of torch ask; the library's name is known to its ranks alone.
            name = library.name if library is not None and rank in alike else "gloo"
            made = make_group(alike, timeout=timeout, backend=name)
            if rank in alike:
                leader, inner = first, made
    between = make_group(leaders, timeout=timeout, backend="gloo") if len(leaders) > 1 else None
    if library is not None and inner is not None:
        for name in ("sum_all_reduce", "broadcast"):
            what = f"{backend.name!r} does not support {TRAINING_CLAIMS[name][0]}"
            reject_denied(backend, name, what, f"one rank on {backend.name!r}")
        library.assert_carries(device, inner)
    names = tuple(name for name, _ in facts)
    return Vendors(names, leader, inner, between if rank in leaders else None, len(leaders))


@dataclass(frozen=True, eq=False)
class _Bucket:
    """Gradients on the way: those of one of DDP's buckets, already divided."""

    gradients: Tensor
    call: HostCall
    copy: Tensor | None
    """Their copy on the host, if this rank alone is of its vendor."""

    inner_sum: Any
    """The sum over the vendor's library, which has begun; None if there is none."""

    arrived: Future[Any]


class GradientMean:
    """Reduces DDP's buckets to the mean over all ranks; ``factor`` is :meth:`Vendors.mean_factor`'s.

    DDP calls it in the backward pass, where it begins the vendor's sum. The rest is in a thread of its own, in the
    order of the buckets, so that it overlaps with the rest of the backward pass. The thread sends results back over the
    library only after the last bucket: the library then has the same calls in the same order on each rank.
    """

    def __init__(self, vendors: Vendors, factor: float, *, pinned: bool) -> None:
        self._vendors = vendors
        self._factor = factor
        self._buffers = HostBuffers(pinned=pinned)
        self._queue: SimpleQueue[tuple[_Bucket, bool] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def reduce(self, bucket: Any) -> Future[Tensor]:
        """Begin the reduction of ``bucket``, in place, and return the future of its tensor."""
        if self._thread is None:
            # A daemon: if another rank hangs, the end of this process does not wait for it.
            self._thread = threading.Thread(target=self._run, name="gradients between vendors", daemon=True)
            self._thread.start()
        gradients = bucket.buffer().div_(self._factor)
        call = HostCall("all_reduce of gradients", self._vendors.count, self._buffers, reduces=True)
        copy = inner_sum = None
        if self._vendors.inner is not None:
            inner_sum = dist.all_reduce(gradients, group=self._vendors.inner, async_op=True)
        elif self._vendors.leaders is not None:
            copy = call.swap([gradients])[0]  # here, because the thread does not follow this thread's stream
        arrived: Future[Any] = Future()
        self._queue.put((_Bucket(gradients, call, copy, inner_sum, arrived), bucket.is_last()))
        reduced: Future[Tensor] = arrived.then(_raise_or_return)
        return reduced

    def end(self) -> None:
        """End the thread, unless it hangs in a call."""
        if self._thread is not None:
            self._queue.put(None)
            # A thread that lets go of torch's objects while the interpreter ends would abort the process.
            self._thread.join(_END_SECONDS)
            self._thread = None

    def _run(self) -> None:
        under_way: list[_Bucket] = []
        error: Exception | None = None
        while (begun := self._queue.get()) is not None:
            bucket, is_last = begun
            under_way.append(bucket)
            try:
                if error is None:
                    self._add_up(bucket)
                    if is_last and self._vendors.inner is not None:
                        self._send_back(under_way)
            except Exception as failure:  # noqa: BLE001 - the backward pass raises it
                error = failure
            if error is not None or is_last or self._vendors.inner is None:
                for each in under_way:
                    each.arrived.set_result(each.gradients if error is None else error)
                under_way.clear()

    def _add_up(self, bucket: _Bucket) -> None:
        if bucket.inner_sum is not None:
            bucket.inner_sum.wait()
        if self._vendors.leaders is None:
            return
        with bucket.call as call:
            copy = call.swap([bucket.gradients])[0] if bucket.copy is None else bucket.copy
            wide = copy.float() if copy.itemsize < torch.float32.itemsize else copy
            dist.all_reduce(wide, group=self._vendors.leaders)
            if wide is not copy:
                copy.copy_(wide)
        call.deliver()

    def _send_back(self, buckets: list[_Bucket]) -> None:
        if self._vendors.count > 1:
            for each in buckets:
                dist.broadcast(each.gradients, self._vendors.leader, group=self._vendors.inner)
        buckets[-1].gradients.view(-1)[:1].cpu()  # waits until this thread's work is done on the chip


def _raise_or_return(arrived: Future[Any]) -> Tensor:
    # torch passes an error to the backward pass only from a callback.
    found = arrived.value()
    if isinstance(found, Exception):
        raise found
    gradients: Tensor = found
    return gradients
