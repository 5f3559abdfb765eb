"""The functions of torch that the vendor's import replaces, those of lazy mode apart."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated import devices, profiler, replaced_in_lazy_mode, streams
from northbridge_hpu.simulated.machine import HPUSimSettings, put
from northbridge_hpu.simulated.markers import is_lazy

_LIBRARY = "hccl"
_TIMEOUT = timedelta(seconds=1800)
_KEY = "hccl/destroyed"

_default_device = distributed_c10d._get_pg_default_device


def replace() -> None:
    """Make the replacements of this mode. ``torch.distributed.distributed_c10d`` keeps its own of the first two."""
    is_old = HPUSimSettings.read().release == "1.19"
    put("torch.distributed.init_process_group", init_process_group if is_old else init_with_device_id)
    put("torch.distributed.new_group", new_group)
    put("torch.distributed.distributed_c10d._get_pg_default_device", _get_pg_default_device)
    put("torch.manual_seed", manual_seed)
    put("torch.seed", seed)
    put("torch.random.fork_rng", fork_rng)
    put("torch.Tensor.record_stream", record_stream)
    profiler.replace()
    if is_lazy():
        replaced_in_lazy_mode.replace()


# Process groups have the parameters of an older torch. Release 1.22 has one parameter more, `device_id`, and makes
# nothing of it: see contract.toml.


def init_process_group(
    backend: str,
    init_method: str | None = None,
    timeout: timedelta = _TIMEOUT,
    world_size: int = -1,
    rank: int = -1,
    store: distributed_c10d.Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
) -> None:
    """Start the default process group; ``backend`` is required, and newer parameters do not exist."""
    distributed_c10d.init_process_group(
        backend,
        init_method=init_method,
        timeout=timeout,
        world_size=world_size,
        rank=rank,
        store=store,
        group_name=group_name,
        pg_options=pg_options,
    )
    _wait_for_all_at_the_end(distributed_c10d._get_default_group())


def init_with_device_id(
    backend: str,
    init_method: str | None = None,
    timeout: timedelta = _TIMEOUT,
    world_size: int = -1,
    rank: int = -1,
    store: distributed_c10d.Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: torch.device | None = None,  # noqa: ARG001 - the vendor's parameter
) -> None:
    """Start the default process group, bound to no device."""
    init_process_group(backend, init_method, timeout, world_size, rank, store, group_name, pg_options)


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta = _TIMEOUT,
    backend: str | None = None,
    pg_options: Any = None,
) -> Any:
    """Create a process group of some ranks, without newer parameters."""
    group = distributed_c10d.new_group(ranks, timeout=timeout, backend=backend, pg_options=pg_options)
    if isinstance(group, dist.ProcessGroup):
        _wait_for_all_at_the_end(group)
    return group


def _get_pg_default_device(group: dist.ProcessGroup | None = None) -> torch.device:
    return torch.device("hpu") if dist.get_backend(group) == _LIBRARY else _default_device(group)


def _wait_for_all_at_the_end(group: dist.ProcessGroup) -> None:
    if _LIBRARY not in dist.get_backend_config(group):
        return
    store = distributed_c10d._world.pg_map[group][1]
    weakref.finalize(group, _wait_for_all, store, dist.get_rank(group), dist.get_world_size(group))


def _wait_for_all(store: distributed_c10d.Store, rank: int, size: int) -> None:
    """Report that this rank is done; the first rank waits for the others, for ever if one has died."""
    try:
        gone = store.add(_KEY, 1)
        while rank == 0 and gone < size:
            time.sleep(0.001)
            gone = store.add(_KEY, 0)
    except dist.DistError as error:  # the first rank, which serves the store, is gone
        logging.getLogger(__name__).debug("no farewell to the other ranks: %s", error)


_manual_seed = torch.manual_seed
_seed = torch.seed
_fork_rng = torch.random.fork_rng


def manual_seed(seed: int) -> torch.Generator:
    """Seed the host's generator and the card's, and return the host's."""
    generator = _manual_seed(seed)
    _seed_card(seed)
    return generator


def seed() -> int:
    """Seed the host's generator with a random number, the card's with the same, and return it."""
    chosen = _seed()
    _seed_card(chosen)
    return chosen


def _seed_card(seed: int) -> None:
    # torch seeds every forked worker of a loader. The vendor's generator is on the host, and allows it.
    if not chip._is_in_bad_fork():
        devices.manual_seed(seed)


def fork_rng(
    devices: Iterable[int] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "hpu",
) -> AbstractContextManager[None]:
    """Fork the generators as torch does, by default those of all cards, although only that of card 0 can be read."""
    return _fork_rng(devices, enabled, _caller, _devices_kw, device_type)


_record_stream = torch.Tensor.record_stream


def record_stream(self: torch.Tensor, s: torch.Stream) -> None:
    """Call ``torch.hpu.record_stream`` for a tensor on the card, and torch's function for any other."""
    (streams.record_stream if self.device.type == "hpu" else _record_stream)(self, s)
