"""The vendor's communication library, as ``torch.distributed`` sees it."""

from __future__ import annotations

import warnings
from abc import ABC
from typing import TYPE_CHECKING, Any, ClassVar

from northbridge.errors import CollectiveError

if TYPE_CHECKING:
    from datetime import timedelta

    import torch
    from torch.distributed import ProcessGroup


class Collective(ABC):
    """One communication library.

    A backend is known by its own name and not by this one: several vendors call their libraries alike. The defaults
    are right for a library that sums, takes minima and maxima, and has no average.
    """

    name: ClassVar[str]
    """The library's name in ``torch.distributed``, such as ``"accl"``."""

    takes_device_id: ClassVar[bool] = False
    """Whether ``init_process_group(device_id=…)`` works. torch binds the group to the device eagerly then."""

    def register(self) -> None:
        """Make :attr:`name` known to torch. Called once, after ``Bridge.load()``; most vendors do it on import."""

    def initialize(self, *, rank: int, world_size: int, timeout: timedelta | None, device: torch.device) -> None:
        """Start the default process group on this library.

        The DDP strategy calls it once a rank, with the device selected, ``MASTER_ADDR`` and ``MASTER_PORT`` set.
        """
        import torch.distributed

        ignore_doubt_about_device()
        options: dict[str, Any] = {"timeout": timeout} if timeout is not None else {}
        if self.takes_device_id:
            options["device_id"] = device
        torch.distributed.init_process_group(self.name, rank=rank, world_size=world_size, **options)

    def assert_carries(self, device: torch.device, group: ProcessGroup | None = None) -> None:
        """Raise :class:`CollectiveError` unless ``group`` carries tensors of ``device`` over this library.

        The DDP strategy calls it after set-up. torch's fake process group claims devices it does not serve, and a group
        that the user made before may be Gloo: both would train without reducing a gradient.
        """
        import torch.distributed

        config = torch.distributed.get_backend_config(group)
        carriers = dict(each.split(":", 1) for each in config.split(",") if ":" in each)
        found = carriers.get(device.type, "nothing")
        if found != self.name:
            raise CollectiveError(
                f"tensors on {device.type!r} travel over {self.name!r}, but the process group in this process carries"
                f" them over {found!r} (it is {config!r}): leave the group to the strategy, or make it with"
                f" torch.distributed.init_process_group({self.name!r})"
            )

    def ddp_options(self) -> dict[str, Any]:
        """Return arguments for ``DistributedDataParallel`` that suit the library. The user's own win."""
        return {}

    def all_reduce(self, tensor: torch.Tensor, op: str = "sum", group: ProcessGroup | None = None) -> torch.Tensor:
        """Reduce ``tensor`` over the ranks, in place, and return it.

        ``op`` is ``"sum"``, ``"mean"``, ``"min"``, ``"max"`` or ``"product"``. A mean is the sum, divided; that of
        whole numbers is cut towards zero, as Lightning does it. Raises :class:`CollectiveError` for any other word.
        """
        import torch.distributed

        names = {"sum": "SUM", "mean": "SUM", "min": "MIN", "max": "MAX", "product": "PRODUCT"}
        if op not in names:
            raise CollectiveError(f"no reduction is called {op!r}: {', '.join(names)} are")
        if op == "mean" and tensor.dtype == torch.bool:
            raise CollectiveError(
                "the mean of bool is not a bool: convert it to float, or reduce with 'max' (any) or 'min' (all)"
            )
        torch.distributed.all_reduce(tensor, op=getattr(torch.distributed.ReduceOp, names[op]), group=group)
        if op == "mean":
            fractional = tensor.is_floating_point() or tensor.is_complex()
            # True division of whole numbers goes through float32, which is exact to 2^24 only.
            tensor.div_(torch.distributed.get_world_size(group), rounding_mode=None if fractional else "trunc")
        return tensor

    def barrier(self, group: ProcessGroup | None = None) -> None:
        """Wait until every rank is here."""
        import torch.distributed

        torch.distributed.barrier(group=group)


def ignore_doubt_about_device() -> None:
    """Silence torch's warning at every ``barrier()`` that ranks might share a device: each has selected its own."""
    warnings.filterwarnings("ignore", r"barrier\(\): using the device under current context", UserWarning)
