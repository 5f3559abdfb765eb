"""Rejection of sharing a device's memory between processes, for which torch does nothing or fails late."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

import northbridge

_FEEDER = "QueueFeederThread"
"""Name of the thread that pickles a Python queue's objects. An error there is printed, and the queue's reader hangs."""


def reject_sharing(name: str) -> None:
    """Reject `share_memory_()` of tensors on a device called `name`, and queues and pipes with them.

    They raise `northbridge.UnsupportedError`; a queue does so for its reader.
    """
    share: Callable[..., Any] = torch.UntypedStorage.share_memory_

    @functools.wraps(share)
    def share_memory_(storage: torch.UntypedStorage, *args: Any, **options: Any) -> torch.UntypedStorage:
        if storage.device.type == name:
            raise _unsupported(storage.device)
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
    if value.device.type != name:
        return reduce(value)
    error = _unsupported(value.device)
    if threading.current_thread().name == _FEEDER:
        return _raise, (error,)
    raise error


def _raise(error: northbridge.UnsupportedError) -> None:
    raise error


def _unsupported(device: torch.device) -> northbridge.UnsupportedError:
    return northbridge.UnsupportedError(
        f"a tensor on {device} cannot be shared between processes. Fix: share its .cpu(); a DataLoader's"
        " workers return CPU tensors",
        capability="sharing",
    )
