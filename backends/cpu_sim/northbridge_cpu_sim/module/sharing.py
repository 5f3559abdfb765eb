"""Other processes cannot read a device's memory: sharing it is refused, where torch would do nothing or fail late."""

from __future__ import annotations

import functools
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

import northbridge


def refuse_sharing(name: str) -> None:
    """Refuse `share_memory_()` of what is on a device called `name`, and queues and pipes that would carry it.

    They raise `northbridge.UnsupportedError`.
    """
    share: Callable[..., Any] = torch.UntypedStorage.share_memory_

    @functools.wraps(share)
    def share_memory_(storage: torch.UntypedStorage, *args: Any, **options: Any) -> torch.UntypedStorage:
        _refuse(name, storage.device)
        shared: torch.UntypedStorage = share(storage, *args, **options)
        return shared

    torch.UntypedStorage.share_memory_ = share_memory_  # type: ignore[method-assign]
    for carried, reduce in (
        (torch.Tensor, reductions.reduce_tensor),
        (torch.nn.Parameter, reductions.reduce_tensor),
        (torch.UntypedStorage, reductions.reduce_storage),
    ):
        ForkingPickler.register(carried, functools.partial(_reduce, name, reduce))


def _reduce(name: str, reduce: Callable[[Any], Any], value: Any) -> Any:
    _refuse(name, value.device)
    return reduce(value)


def _refuse(name: str, device: torch.device) -> None:
    if device.type == name:
        raise northbridge.UnsupportedError(
            f"a tensor on {device} was to be shared with another process, but the memory of {name} belongs to one"
            f" process: share its .cpu(), and move that to {name} in the process that gets it",
            capability="sharing",
        )
