"""The vendor's communication library, as ``torch.distributed`` sees it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from northbridge.errors import CollectiveError, ReductionError

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup


_REDUCTIONS = {"sum": "SUM", "mean": "SUM", "min": "MIN", "max": "MAX", "product": "PRODUCT"}
_COUNTING_DTYPES = ("float32", "int32", "int64", "float64", "bfloat16", "float16")  # for counting ranks


class Collective(ABC):
    """One communication library.

    Several vendors use the same library name, so a backend is identified by its own name. The defaults suit a library
    that reduces by sum, minimum and maximum, and has no average.
    """

    name: ClassVar[str]
    """The library's name in ``torch.distributed``, such as ``"accl"``."""

    other_names: ClassVar[tuple[str, ...]] = ()
    """Further names in ``torch.distributed`` under which the vendor's libraries run on the chip.

    A user may choose one by ``process_group_backend=``. Only :attr:`name` is used otherwise.
    """

    takes_device_id: ClassVar[bool] = False
    """True if ``init_process_group(device_id=…)`` works. torch then binds the group to the device at once."""

    missing_reductions: ClassVar[Mapping[str, str]] = {}
    """The reductions of :meth:`all_reduce` that the library lacks; each maps to what to do instead."""

    exact_dtypes: ClassVar[frozenset[str] | None] = None
    """The dtypes, such as ``"float32"``, that the library reduces without conversion; None if all.

    Tensors of other dtypes would be rounded silently, so they are gathered and reduced on the host.
    """

    averages: ClassVar[bool] = True
    """True if the library reduces by average, which FSDP2 uses. If not, FSDP2 is told to sum."""

    carried_dtypes: ClassVar[frozenset[str] | None] = None
    """The dtypes that the library can send; None if all.

    Tensors of other dtypes are sent as bytes, so uint8 must be among them.
    """

    device_type: str
    """The torch device type that the library serves; :class:`northbridge.Backend` sets it."""

    pins_memory: bool = False
    """True if the chip claims ``pinned_memory``; :class:`northbridge.Backend` sets it."""

    def register(self) -> None:
        """Register :attr:`name` with torch. Called once, after ``Bridge.load()``; most vendors do it on import."""

    def initialize(
        self,
        *,
        rank: int,
        world_size: int,
        timeout: timedelta | None,
        device: torch.device,
        store: Store | None = None,
        library: str | None = None,
    ) -> None:
        """Start the default process group on this library, or on ``library``, one of :attr:`other_names`.

        :func:`northbridge.launch.process_group.start` calls it once in each rank. The device is selected, and
        ``MASTER_ADDR`` and ``MASTER_PORT`` are set. ``store`` is the ranks' rendezvous; None leaves it to torch.
        ``library`` is passed only if the user asked for one of the other names.
        """
        import torch.distributed

        options: dict[str, Any] = {"timeout": timeout} if timeout is not None else {}
        if self.takes_device_id:
            options["device_id"] = device
        if store is not None:
            options["store"] = store
        torch.distributed.init_process_group(library or self.name, rank=rank, world_size=world_size, **options)

    def assert_carries(self, device: torch.device, group: ProcessGroup | None = None) -> None:
        """Raise :class:`CollectiveError` unless ``group`` sends tensors of ``device`` over this library.

        The strategies for several devices call it after set-up. torch's fake process group claims devices that it does
        not serve, a group that the user made may be Gloo, and a library may return without reducing. In each case the
        gradients would not be reduced, so the names are compared and one small tensor of ones is summed.
        """
        import torch.distributed

        config = torch.distributed.get_backend_config(group)
        carriers = dict(each.split(":", 1) for each in config.split(",") if ":" in each)
        found = carriers.get(device.type, "nothing")
        if found not in (self.name, *self.other_names):
            raise CollectiveError(
                f"{device.type!r} needs {self.name!r}, but the process group uses {found!r} ({config!r}). Fix:"
                f" torch.distributed.init_process_group({self.name!r})"
            )
        ranks = torch.distributed.get_world_size(group)
        if ranks == 1:
            return
        counting: list[torch.dtype] = [getattr(torch, name) for name in _COUNTING_DTYPES]
        exact = next(filter(self._reduces_exactly, counting), counting[0])
        ones = torch.ones(1, dtype=exact, device=device)
        # Not this class's all_reduce(), which may take another path than gradients do.
        torch.distributed.all_reduce(ones, group=group)
        total = ones.item()
        if total != ranks:
            raise CollectiveError(
                f"{self.name!r} does not sum: {ranks} ranks added up ones and got {total:g}. Fix: reinstall"
                f" the library of {device.type!r}"
            )

    def ddp_options(self) -> dict[str, Any]:
        """Return arguments for ``DistributedDataParallel``; the user's own take precedence. Called once per rank."""
        return {}

    def all_reduce(self, tensor: torch.Tensor, op: str = "sum", group: ProcessGroup | None = None) -> torch.Tensor:
        """Reduce ``tensor`` over the ranks, in place, and return it. Called by the strategies, but not for gradients.

        ``op`` is ``"sum"``, ``"mean"``, ``"min"``, ``"max"`` or ``"product"``. A mean is the sum divided by the ranks;
        for integers it is truncated towards zero, as in Lightning. Tensors of a dtype that the library would round are
        gathered and reduced exactly, on the host. Raises :class:`ReductionError` for any other ``op`` and for a
        reduction that the library lacks.
        """
        import torch.distributed

        if op not in _REDUCTIONS:
            raise ReductionError(f"unknown reduction {op!r}; known: {', '.join(_REDUCTIONS)}")
        if op in self.missing_reductions:
            raise ReductionError(f"{self.name!r} cannot reduce by {op!r}: {self.missing_reductions[op]}")
        if op == "mean" and tensor.dtype == torch.bool:
            raise CollectiveError("bool has no mean. Fix: convert to float, or use max or min")
        if self._reduces_exactly(tensor.dtype):
            torch.distributed.all_reduce(tensor, op=getattr(torch.distributed.ReduceOp, _REDUCTIONS[op]), group=group)
        else:
            self._reduce_on_host(tensor, op, group)
        if op == "mean":
            fractional = tensor.is_floating_point() or tensor.is_complex()
            # True division of integers goes through float32, which is exact only up to 2^24.
            tensor.div_(torch.distributed.get_world_size(group), rounding_mode=None if fractional else "trunc")
        return tensor

    def all_gather(self, tensor: torch.Tensor, group: ProcessGroup | None = None) -> list[torch.Tensor]:
        """Return the ``tensor`` of every rank, rank 0 first; all have the same shape. Called by the strategies."""
        import torch.distributed

        own = self.as_carried(tensor.contiguous())
        gathered = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size(group))]
        torch.distributed.all_gather(gathered, own, group=group)
        return [self.as_sent(each, like=tensor) for each in gathered]

    def _reduces_exactly(self, dtype: torch.dtype) -> bool:
        known = self.exact_dtypes is None or _name(dtype) in self.exact_dtypes
        return known and self.carries(dtype)

    def carries(self, dtype: torch.dtype) -> bool:
        """Return True if the library can send ``dtype``."""
        return self.carried_dtypes is None or _name(dtype) in self.carried_dtypes

    def as_carried(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor to send: ``tensor``, or its bytes, flat, if the library cannot send its dtype.

        :meth:`as_sent` restores it.
        """
        import torch

        return tensor if self.carries(tensor.dtype) else tensor.contiguous().reshape(-1).view(torch.uint8)

    def as_sent(self, arrived: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return ``arrived`` with the dtype and shape of the sent tensor ``like``; keep leading dimensions."""
        if arrived.dtype == like.dtype:
            return arrived
        ranks = arrived.shape[:-1]
        return arrived.reshape(-1).view(like.dtype).reshape((*ranks, *like.shape))

    def _reduce_on_host(self, tensor: torch.Tensor, op: str, group: ProcessGroup | None) -> None:
        import torch

        stacked = torch.stack([each.cpu() for each in self.all_gather(tensor, group)])
        if op == "product":
            reduced = stacked.prod(dim=0)
        elif op in ("min", "max"):
            reduced = stacked.amin(dim=0) if op == "min" else stacked.amax(dim=0)
        else:
            reduced = stacked.any(dim=0) if stacked.dtype == torch.bool else stacked.sum(dim=0)
        tensor.copy_(reduced.to(tensor.dtype))

    def barrier(self, group: ProcessGroup | None = None) -> None:
        """Wait until every rank has called it. Called by the strategies when Lightning asks for a barrier."""
        import torch.distributed

        torch.distributed.barrier(group=group)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
