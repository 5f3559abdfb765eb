"""Ranks that the suite starts side by side without Lightning: their meeting, their results, and the tests' fixtures."""

from __future__ import annotations

import atexit
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import torch
import torch.distributed as dist

import northbridge
from northbridge.errors import UnsupportedError
from northbridge.launch import process_group
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.suite import Suite, require_devices

STEPS = tuple(
    f"{__package__}.{step}"
    for step in (
        "collective_reductions:reduce_tensors",
        "transfers:transfer",
        "exchanges:exchange",
        "groups:communicate",
        "waits:wait",
        "ddp_gradients:train_with_ddp",
        "first_step:train_first_step",
    )
)
"""The steps of the ranks in one run."""

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
    collective = backend.require_collective()
    found = Rank(rank, ranks, device, backend.device, collective)
    if not dist.is_initialized():
        backend.bridge.prepare_rank(index=rank, local_rank=rank, world_size=ranks)
        backend.device.select(rank)
        until()
        store = process_group.meet(collective, rank=rank, world_size=ranks, timeout=timeout, device=device)
        process_group.start(collective, rank=rank, world_size=ranks, timeout=timeout, device=device, store=store)
        collective.assert_carries(device)
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


Facts = list[dict[str, Any]]
"""The findings of every rank, rank 0 first."""

Claims = Mapping[str, northbridge.Claim]


def may_reject(claims: Claims, dtype: str) -> bool:
    """Return True if the chip may lack ``dtype``: it denies it, or its claim is unknown."""
    return dtype in claims and claims[dtype].answer != "yes"


def as_held(exact: Any, dtype: str, claimed: Claims) -> Any:
    """Return ``exact`` as a chip represents it: one that denies float64 may compute with float32 instead."""
    return pytest.approx(exact, rel=1e-6) if dtype == "float64" and claimed[dtype].denied else exact


def results_of(ranks: Facts, name: str) -> list[Any]:
    """Return each rank's result of ``name``.

    Raises :class:`UnsupportedError` if the library refused on every rank, and :class:`AssertionError` if only on some,
    or if it failed.
    """
    found = [rank[name] for rank in ranks]
    failures = [f"rank {rank}: {failure}" for rank, each in enumerate(found) if (failure := failure_of(each))]
    if failures:
        raise AssertionError(f"{name} failed:\n" + "\n".join(failures))  # pytest would append them to an assert
    errors = [error_of(each) for each in found]
    if all(errors):
        raise UnsupportedError(f"{name}: {errors[0]}", capability="collective")
    assert not any(errors), f"{name} fails on some ranks, and the others wait for them: {errors}"
    return found


def rejections(ranks: Facts, name: str) -> list[str]:
    """Return the error of each rank if the library refused on every one, else an empty list."""
    errors = [error_of(rank[name]) for rank in ranks]
    return errors if all(errors) else []


@pytest.mark.parametrize("devices", [2, 4], ids=["two devices", "four devices"])
class Ranks(Suite):
    """Tests of ranks that use the communication library; Lightning is not imported."""

    step: ClassVar[str]
    """The function whose findings the tests read."""

    @pytest.fixture
    def claimed(self, backend: str) -> Claims:
        """Return the claims of this machine's cards."""
        return northbridge.load(backend).present_capabilities().claims()

    @pytest.fixture
    def ranks(self, backend: str, devices: int, environ: dict[str, str]) -> Facts:
        """Return the findings of every rank."""
        require_devices(backend, devices)
        return run(Scenario(backend, "", STEPS, devices, launch="ranks"), environ).ranks(self.step)
