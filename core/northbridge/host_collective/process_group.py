"""The process group of :class:`northbridge.HostCollective`, as torch calls it."""

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# torch's methods have overloads that nothing but the C++ of its own bindings tells apart.

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, AllreduceCoalescedOptions

from northbridge.errors import UnsupportedError
from northbridge.host_collective.copies import HostBuffers, HostCall, HostWork, HostWorks

Tensors = Sequence[Tensor]

_PARENT: Any = dist.ProcessGroup
_IS_OLD = not hasattr(_PARENT, "all_gather_single")  # before torch 2.13
_all_gather = _PARENT._allgather_base if _IS_OLD else _PARENT.all_gather_single
_reduce_scatter = _PARENT._reduce_scatter_base if _IS_OLD else _PARENT.reduce_scatter_single


class HostGroup(dist.ProcessGroup):
    """Gloo among ranks that hold tensors on chips: each call is one on copies, by an inner group of torch's.

    The inner group's calls go through torch's dispatcher, where the flight recorder sees them. It is not the parent
    class: torch would call that with the GIL, for which Gloo's threads may wait.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, *, pinned: bool = False) -> None:
        # With the store that its types ask for, torch's constructor makes a plain group, not one of this class.
        super().__init__(rank, size)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        self._buffers = HostBuffers(pinned=pinned)
        self._together: list[HostWork] | None = None
        self._name = self._description = ""
        with self._call("start"):
            gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
            gloo._set_sequence_number_for_group()
        self._inner = _PARENT(rank, size)
        kind = dist.ProcessGroup.BackendType.GLOO
        for group in (self._inner, self):  # torch asks the outer group for its devices, and for Gloo to set limits
            group._register_backend(torch.device("cpu"), kind, gloo)
            group._set_default_backend(kind)

    def _call(self, name: str, *, reduces: bool = False) -> HostCall:
        return HostCall(name, self.size(), self._buffers, reduces=reduces)

    def _begun(self, gloo: Any, call: HostCall, results: Tensors = ()) -> HostWork:
        work = HostWork(gloo, call, results)
        if self._together is not None:
            self._together.append(work)
        return work

    def _start_coalescing(self, device: torch.device) -> None:  # noqa: ARG002 - torch's
        self._together = []

    def _end_coalescing(self, device: torch.device) -> HostWorks:  # noqa: ARG002 - torch's
        works, self._together = self._together or [], None
        return HostWorks(works)

    def getBackendName(self) -> str:
        """Return the library's name; torch asks for it by this name."""
        return "host"

    def getGroupName(self) -> str:
        """Return the group's name."""
        return self._name

    def setGroupName(self, name: str) -> None:
        """Set the group's name, by which the flight recorder knows the inner group too."""
        self._name = name
        self._inner._set_group_name(name)

    def getGroupDesc(self) -> str:
        """Return the group's description."""
        return self._description

    def setGroupDesc(self, description: str) -> None:
        """Set the group's description."""
        self._description = description
        self._inner._set_group_desc(description)

    def allreduce(self, tensors: Tensors, opts: Any = None) -> HostWork:
        """Reduce tensors over the ranks, in place."""
        with self._call("all_reduce", reduces=True) as call:
            begun = self._inner.allreduce(call.swap(tensors), opts or dist.AllreduceOptions())
        return self._begun(begun, call, tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> HostWork:
        """Reduce several tensors over the ranks, in place."""
        with self._call("all_reduce_coalesced", reduces=True) as call:
            begun = self._inner.allreduce_coalesced(call.swap(tensors), opts or AllreduceCoalescedOptions())
        return self._begun(begun, call, tensors)

    def reduce(self, tensors: Tensors, opts: Any) -> HostWork:
        """Reduce tensors over the ranks into those of one rank."""
        with self._call("reduce", reduces=True) as call:
            copies = call.swap(tensors) if opts.rootRank == self.rank() else call.send(tensors)
            begun = self._inner.reduce(copies, opts)
        return self._begun(begun, call, tensors)

    def broadcast(self, tensors: Tensors, opts: Any) -> HostWork:
        """Send one rank's tensors to the others."""
        with self._call("broadcast") as call:
            copies = call.send(tensors) if opts.rootRank == self.rank() else call.receive(tensors)
            begun = self._inner.broadcast(copies, opts)
        return self._begun(begun, call, tensors)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> HostWork:
        """Gather the ranks' tensors into a list."""
        with self._call("all_gather") as call:
            copies = [call.receive(each) for each in outputs]
            begun = self._inner.allgather(copies, call.send(inputs), opts or AllgatherOptions())
        return self._begun(begun, call, outputs[0])

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> HostWork:
        """Gather the ranks' tensors into one."""
        with self._call("all_gather_into_tensor") as call:
            into, sent = *call.receive([output]), *call.send([given])
            begun = _all_gather(self._inner, into, sent, opts or AllgatherOptions())
        return self._begun(begun, call, [output])

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HostWork:
        """Gather the ranks' tensors into one each."""
        with self._call("all_gather_into_tensor_coalesced") as call:
            copies = call.receive(outputs), call.send(inputs)
            begun = self._inner.allgather_into_tensor_coalesced(*copies, opts or AllgatherOptions())
        return self._begun(begun, call, outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> HostWork:
        """Reduce lists of tensors over the ranks, each of which gets one."""
        with self._call("reduce_scatter", reduces=True) as call:
            copies = call.receive(outputs), [call.send(each) for each in inputs]
            begun = self._inner.reduce_scatter(*copies, opts or dist.ReduceScatterOptions())
        return self._begun(begun, call, outputs)

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any = None) -> HostWork:
        """Reduce a tensor over the ranks, each of which gets a part."""
        with self._call("reduce_scatter_tensor", reduces=True) as call:
            into, sent = *call.receive([output]), *call.send([given])
            begun = _reduce_scatter(self._inner, into, sent, opts or dist.ReduceScatterOptions())
        return self._begun(begun, call, [output])

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HostWork:
        """Reduce several tensors over the ranks, each of which gets a part of each."""
        with self._call("reduce_scatter_tensor_coalesced", reduces=True) as call:
            copies = call.receive(outputs), call.send(inputs)
            begun = self._inner.reduce_scatter_tensor_coalesced(*copies, opts or dist.ReduceScatterOptions())
        return self._begun(begun, call, outputs)

    if _IS_OLD:
        _allgather_base: Any = all_gather_single
        _reduce_scatter_base: Any = reduce_scatter_single

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> HostWork:
        """Gather the ranks' tensors in one rank."""
        with self._call("gather") as call:
            copies = [call.receive(each) for each in outputs]
            begun = self._inner.gather(copies, call.send(inputs), opts)
        return self._begun(begun, call, [each for output in outputs for each in output])

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> HostWork:
        """Send each rank one of one rank's tensors."""
        with self._call("scatter") as call:
            copies = [call.send(each) for each in inputs]
            begun = self._inner.scatter(call.receive(outputs), copies, opts)
        return self._begun(begun, call, outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> HostWork:
        """Send each rank one tensor of a list, and receive one from each."""
        with self._call("all_to_all") as call:
            copies = call.receive(outputs), call.send(inputs)
            begun = self._inner.alltoall(*copies, opts or dist.AllToAllOptions())
        return self._begun(begun, call, outputs)

    def alltoall_base(
        self, output: Tensor, given: Tensor, output_sizes: list[int], input_sizes: list[int], opts: Any = None
    ) -> HostWork:
        """Send each rank a part of a tensor, and receive one from each."""
        with self._call("all_to_all_single") as call:
            into, sent = *call.receive([output]), *call.send([given])
            sizes = _as_sent(output_sizes, output, into), _as_sent(input_sizes, given, sent)
            begun = self._inner.alltoall_base(into, sent, *sizes, opts or dist.AllToAllOptions())
        return self._begun(begun, call, [output])

    def send(self, tensors: Tensors, rank: int, tag: int) -> HostWork:
        """Send tensors to a rank."""
        with self._call("send") as call:
            begun = self._inner.send(call.send(tensors), rank, tag)
        return self._begun(begun, call)

    def recv(self, tensors: Tensors, rank: int, tag: int) -> HostWork:
        """Receive tensors from a rank."""
        with self._call("recv") as call:
            begun = self._inner.recv(call.receive(tensors), rank, tag)
        return self._begun(begun, call, tensors)

    def recv_anysource(self, tensors: Tensors, tag: int) -> HostWork:
        """Receive tensors from the first rank that sends some."""
        with self._call("recv") as call:
            begun = self._inner.recv_anysource(call.receive(tensors), tag)
        return self._begun(begun, call, tensors)

    def barrier(self, opts: Any = None) -> HostWork:
        """Wait until all ranks have called it."""
        opts = opts or dist.BarrierOptions()
        opts.device = torch.device("cpu")
        with self._call("barrier") as call:
            begun = self._inner.barrier(opts)
        return self._begun(begun, call)

    def split_group(self, *_: Any, **__: Any) -> Any:
        """Raise :class:`UnsupportedError`: Gloo splits no group."""
        raise UnsupportedError("HostCollective cannot split groups. Fix: new_group()", capability="collective")


def reject_split_group() -> None:
    """Let torch's ``split_group`` call :meth:`HostGroup.split_group`: its own error would be about devices."""
    stock = dist.split_group

    @wraps(stock)
    def split_group(parent_pg: Any = None, *args: Any, **kwargs: Any) -> Any:
        group = parent_pg or dist.group.WORLD
        split = group.split_group if isinstance(group, HostGroup) else stock
        return split(parent_pg, *args, **kwargs)

    dist.split_group = dist.distributed_c10d.split_group = split_group


def _as_sent(sizes: list[int], tensor: Tensor, copy: Tensor) -> list[int]:
    """Return the ``sizes`` of parts of ``tensor`` along its first dimension, for its ``copy``, which may be bytes."""
    bytes_of_row = copy.numel() // max(len(tensor), 1) if copy.dtype != tensor.dtype else 1
    return [each * bytes_of_row for each in sizes]
