"""Start of a rank's process group: over its chip's library, recorded, in a store for each attempt."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from northbridge import flight_recorder
from northbridge.errors import CollectiveError, VariableError
from northbridge.launch import rendezvous

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store

    from northbridge.collective import Collective


def meet(
    collective: Collective,
    *,
    rank: int,
    world_size: int,
    timeout: timedelta | None,
    device: torch.device,
    node_size: int | None = None,
    store: Store | None = None,
    library: str | None = None,
) -> Store | None:
    """Let this rank meet the others, and return the store for :func:`start`; None for one rank.

    The strategies for several devices call it once per rank, after selecting the device and setting ``MASTER_ADDR`` and
    ``MASTER_PORT``, or with the ``store`` in which the ranks meet. The library is that of ``collective``, or
    ``library``, another of its names; a node has ``node_size`` ranks. Raises :class:`VariableError` if a variable gives
    the group to another library, and what :func:`northbridge.launch.rendezvous.meet` raises.
    """
    name = library or collective.name
    _reject_torchcomms(name)
    flight_recorder.begin(rank, world_size)
    return rendezvous.meet(
        f"{device.type} ({name})",
        rank=rank,
        world_size=world_size,
        timeout=timeout,
        node_size=node_size,
        store=store,
    )


def start(
    collective: Collective,
    *,
    rank: int,
    world_size: int,
    timeout: timedelta | None,
    device: torch.device,
    store: Store | None = None,
    library: str | None = None,
) -> None:
    """Start the default process group of this rank on ``collective``, or on ``library``, another of its names.

    Called after :func:`meet`, with its ``store``. Raises :class:`CollectiveError` if torch has no library of that name.
    """
    import torch.distributed

    name = library or collective.name
    ignore_doubt_about_device()
    other: dict[str, Any] = {} if name == collective.name else {"library": name}
    try:
        collective.initialize(rank=rank, world_size=world_size, timeout=timeout, device=device, store=store, **other)
    except AssertionError as error:
        known = torch.distributed.Backend.backend_list
        if name in known:
            raise
        raise CollectiveError(
            f"torch has no backend {name!r}; found {', '.join(known)}. Fix: Collective.register() it"
        ) from error


def _reject_torchcomms(library: str) -> None:
    from importlib import import_module

    try:
        config = import_module("torch.distributed.config")
    except ModuleNotFoundError:  # before torch 2.13
        return
    if getattr(config, "use_torchcomms", False):
        raise VariableError(
            f"TORCH_DISTRIBUTED_USE_TORCHCOMMS is set, but torchcomms has no {library!r}. Fix: unset it",
            variable="TORCH_DISTRIBUTED_USE_TORCHCOMMS",
        )


def ignore_doubt_about_device() -> None:
    """Silence torch's warning at each ``barrier()`` that ranks may share a device: each has selected its own."""
    warnings.filterwarnings("ignore", r"barrier\(\): using the device under current context", UserWarning)
