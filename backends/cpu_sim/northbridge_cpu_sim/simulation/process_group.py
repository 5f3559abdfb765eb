"""Registration of the chip's communication library for process groups."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

import northbridge_cpu_sim.chip as chip
from northbridge_cpu_sim.settings import SimSettings
from northbridge_cpu_sim.simulation.simulated_device import Dtype, Library

_NEVER = timedelta(days=3650)
_EVERY_CALL = ""  # the compiled chip's name for it


def register(extension: ModuleType, library: Library, device_type: str) -> None:
    """Make ``init_process_group(library.name)`` work, for tensors of ``device_type``."""
    _leave_the_waiting_to_the_group()
    extension.set_make_below(_make_gloo)
    if library.name in dist.Backend.backend_list:
        _put_into_torch(library)
        return
    make = functools.partial(_make, library)
    dist.Backend.register_backend(library.name, make, extended_api=True, devices=[device_type])


def _put_into_torch(library: Library) -> None:
    """Make a library that torch itself would have in another build available, under torch's names for it."""
    name = library.name.upper()
    c10d: Any = dist.distributed_c10d

    class ProcessGroup:
        """The library's process group, as torch creates it."""

        class Options:
            """The options that torch sets."""

            _timeout = _NEVER
            group_name = ""
            global_ranks_in_group: Sequence[int] = ()

        def __new__(cls, store: Any, rank: int, size: int, options: Options) -> Any:
            group = c10d._DistributedBackendOptions()  # what torch gives to the libraries of others
            group.store, group.group_rank, group.group_size = store, rank, size
            group.group_id, group.timeout = options.group_name, options._timeout
            group.global_ranks_in_group = [*options.global_ranks_in_group]
            return _make(library, group, None)

    ProcessGroup.__name__ = ProcessGroup.__qualname__ = f"ProcessGroup{name}"
    setattr(c10d, ProcessGroup.__name__, ProcessGroup)
    setattr(c10d, f"_{name}_AVAILABLE", True)


def dtype_of(name: str) -> torch.dtype:
    """Return the torch dtype called ``name``, such as ``"float32"``."""
    found: torch.dtype = getattr(torch, name)
    return found


def by_dtype(sentences: Mapping[Dtype, str]) -> dict[torch.dtype, str]:
    """Return the error texts of a device file with torch's dtypes as keys, instead of their names."""
    return {dtype_of(name): sentence for name, sentence in sentences.items()}


def _leave_the_waiting_to_the_group() -> None:
    """Let the rank that keeps torch's store continue at once to the creation of its group.

    It would wait in the store for all ranks, and could only report how many are missing. The creation of a group waits
    for all ranks too, for the same time, and names the missing ranks.
    """
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")  # the package has a function of that name
    original = rendezvous.TCPStore

    def make_store(*, is_master: bool, **options: Any) -> Any:
        return original(is_master=is_master, wait_for_workers=not is_master, **options)

    rendezvous.TCPStore = make_store


def _make_gloo(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = timeout
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME", "")
    with _scheduling_new_threads_as_batch():
        options._devices = (
            [gloo.create_device(interface=each) for each in interfaces.split(",")]
            if interfaces
            else [gloo.create_default_device()]
        )
    options._threads = 1  # one call after the other, as on a stream: Gloo's default runs two at once
    return gloo(store, rank, size, options)


@contextmanager
def _scheduling_new_threads_as_batch() -> Iterator[None]:
    """Give the threads that are created meanwhile the policy SCHED_BATCH, which they inherit from this thread.

    A packet that wakes such a thread does not preempt a rank. With 2 ranks on 2 cores, an all-reduce of 1 MiB takes
    half as long.
    """
    policy = os.sched_getscheduler(0)
    with suppress(PermissionError):  # a container may forbid it, and Gloo is only slower then
        if policy == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != policy:
            os.sched_setscheduler(0, policy, os.sched_param(0))


def _make(library: Library, options: Any, backend_options: object) -> Any:
    if backend_options is not None:
        raise ValueError(f"{library.name} accepts no pg_options, found {backend_options}")
    reduces = library.reduces
    lacking_calls: dict[str, str] = {}
    lacking_dtypes = {_EVERY_CALL: by_dtype(library.lacks.dtypes)}
    for call, said in library.lacks.calls.items():
        if isinstance(said, str):
            lacking_calls[call] = said
        else:
            lacking_dtypes[call] = by_dtype(said)
    extension = chip.extension()
    facts = chip.structure(
        extension,
        "GroupFacts",
        library=library.name,
        name=options.group_id,
        rank=options.group_rank,
        size=options.group_size,
        global_ranks=options.global_ranks_in_group,
        timeout=options.timeout if library.deadlines else _NEVER,
    )
    limits = chip.structure(
        extension,
        "CollectiveLimits",
        lacking_reductions=dict(library.lacks.reductions),
        lacking_calls=lacking_calls,
        lacking_dtypes=lacking_dtypes,
        natively=[dtype_of(name) for name in reduces.natively] if reduces else [],
        through=dtype_of(reduces.through) if reduces else None,
    )
    return extension.make_collective(options.store, facts, limits, SimSettings.read().check_collectives)
