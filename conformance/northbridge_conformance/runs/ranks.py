"""Ranks that the suite starts side by side without Lightning: their meeting, and the results of their attempts."""

from __future__ import annotations

import atexit
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import northbridge
from northbridge.launch import process_group
from northbridge_conformance.runs.scenario import Scenario

LIMIT = timedelta(seconds=120)
"""The default limit for a rank that waits for the others."""


@dataclass(frozen=True)
class Rank:
    """This process as one of the ranks."""

    number: int
    ranks: int
    device: torch.device
    chip: northbridge.Device
    collective: northbridge.Collective

    @property
    def is_last(self) -> bool:
        """True for the rank with the highest number."""
        return self.number == self.ranks - 1

    def tensor(self, values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return ``values`` on the rank's device."""
        return torch.tensor(values, dtype=dtype, device=self.device)


def meet(scenario: Scenario, timeout: timedelta = LIMIT, until: Callable[[], None] = lambda: None) -> Rank:
    """Return this process's rank; the first call loads the chip, calls ``until`` and starts the process group.

    Later calls return the same rank in the same group, which ends with the process.
    """
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = northbridge.load(scenario.accelerator)
    device = backend.device.root(rank)
    found = Rank(rank, ranks, device, backend.device, backend.collective)
    if not dist.is_initialized():
        backend.bridge.prepare_rank(index=rank, local_rank=rank, world_size=ranks)
        backend.device.select(rank)
        until()
        collective = backend.collective
        store = process_group.meet(collective, rank=rank, world_size=ranks, timeout=timeout, device=device)
        process_group.start(collective, rank=rank, world_size=ranks, timeout=timeout, device=device, store=store)
        backend.collective.assert_carries(device)
        atexit.register(_leave)
    return found


def attempt(operation: Callable[[], Any]) -> Any:
    """Return the result of ``operation``, which must fit into JSON, or ``{"error": …}`` if it raises.

    For other errors, such as a failed assertion, return the traceback in ``{"failed": …}``.
    """
    try:
        return operation()
    except (RuntimeError, NotImplementedError, TypeError, ValueError, northbridge.NorthbridgeError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception:  # noqa: BLE001  # it fails the tests that read this result, and no others
        return {"failed": traceback.format_exc()}


def error_of(found: Any) -> str:
    """Return the error that :func:`attempt` kept, or ""."""
    return str(found["error"]) if isinstance(found, dict) and "error" in found else ""


def failure_of(found: Any) -> str:
    """Return the traceback that :func:`attempt` kept, or ""."""
    return str(found["failed"]) if isinstance(found, dict) and "failed" in found else ""


def _leave() -> None:
    # A library may hold threads and sockets that can break the interpreter's teardown.
    if dist.is_initialized():
        dist.destroy_process_group()
