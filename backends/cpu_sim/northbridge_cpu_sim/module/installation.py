"""How the compiled chip becomes a device of torch."""

from __future__ import annotations

import functools
import importlib
import os
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

from northbridge_cpu_sim.module import chip


def install(
    extension: ModuleType, *, name: str, collective: str, devices: int, memory: int | None, label: str
) -> ModuleType:
    """Make the compiled chip torch's device `name` and its collectives the process group `collective`.

    `memory` is in bytes for each device, None being as much as the host has. Returns `torch.<name>`.
    Raises ValueError for a number of devices or a memory that the chip cannot have.
    """
    rename_privateuse1_backend(name)
    extension.configure(devices, _host_memory() if memory is None else memory, label)
    chip.place(extension, name)
    module = importlib.import_module("northbridge_cpu_sim.module")
    torch._register_device_module(name, module)  # type: ignore[no-untyped-call]
    generate_methods_for_privateuse1_backend()
    # The chip does this for every thread that touches it; this one may run a backward before.
    torch.autograd.set_multithreading_enabled(False)
    make = functools.partial(_make_collective, collective)
    dist.Backend.register_backend(collective, make, extended_api=True, devices=[name])
    return module


def _host_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _make_collective(name: str, options: Any, backend_options: object) -> Any:
    if backend_options is not None:
        raise ValueError(f"{name} takes no pg_options, but got {backend_options!r}; leave them out")
    gloo = dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)
    return chip.extension().make_collective(gloo, name)
