"""Reconciliation of a strategy object's devices with ``devices=``."""

from __future__ import annotations

import sys
from typing import Any

import torch

from northbridge.discovery.present import detect
from northbridge.errors import DevicesError
from northbridge.launch.ray_worker import devices_of_worker, runtime_context
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.ray import is_rays


def settle_devices(namespace: Namespace, connector: Any, asked: Any) -> None:
    """Give the devices of the user's strategy object their indices, and reject contradictions with ``devices=asked``.

    A list of devices without an index means one for each local rank: ``[torch.device("acme")] * 8``. If ``devices=`` is
    given too, both must mean the same number, and the indices of ``devices=`` are used. A single device without an
    index is the device of ``devices=``, or the first. An index that this machine lacks is an error. If neither says how
    many, a notebook uses one device, as Lightning does on CUDA. Called after the connector has read ``devices=``.
    """
    strategy = connector._strategy_flag
    if is_rays(type(strategy)):
        _settle_worker(connector, asked)
        return
    if runtime_context() is not None:
        _settle_share(connector, asked)
    listed = getattr(strategy, "parallel_devices", None)
    if listed:
        strategy.parallel_devices = connector._parallel_devices = _index(connector, listed, asked)
    elif getattr(getattr(strategy, "_root_device", None), "type", None) == connector.accelerator.backend.device.type:
        strategy._root_device = _index_one(connector, strategy._root_device, asked)
    elif asked == "auto" and namespace.connector._IS_INTERACTIVE and len(connector._parallel_devices) > 1:
        _use_one(namespace, connector)


def _settle_worker(connector: Any, asked: Any) -> None:
    # Ray starts a worker for each device, and the strategy finds that of this worker by its local rank.
    context = sys.modules["ray.train"].get_context()
    workers, ranks = int(context.get_local_world_size()), int(context.get_world_size())
    own = _own_devices(connector, at_least=1)[0]
    if getattr(connector._strategy_flag, "parallel_devices", None):
        raise DevicesError("parallel_devices= in a Ray worker: Ray chooses its device. Fix: leave it out")
    if asked not in ("auto", -1, "-1", 1, "1", workers, str(workers)) and connector._devices_flag != [own]:
        raise DevicesError(f"devices={asked!r} in a Ray worker: Ray gave it device {own}. Fix: devices='auto'")
    connector._devices_flag = [own] * workers
    connector._parallel_devices = list(connector.accelerator.get_parallel_devices(connector._devices_flag))
    connector._num_nodes_flag = -(-ranks // workers)


def _settle_share(connector: Any, asked: Any) -> None:
    # A worker of Ray without a strategy of Ray's, such as a trial of Ray Tune, uses the devices that Ray counts for it.
    own = _own_devices(connector)
    indices: list[int] = connector._devices_flag
    if not own:
        return
    wanted = indices if _names_indices(asked) else own if asked in ("auto", -1, "-1") else own[: len(indices)]
    if len(indices) > len(own) and wanted is not own or not set(wanted) <= set(own):
        raise DevicesError(
            f"devices={asked!r}, but Ray gave this worker device {', '.join(map(str, own))}. Fix: devices='auto'"
        )
    connector._devices_flag = list(wanted)
    connector._parallel_devices = list(connector.accelerator.get_parallel_devices(connector._devices_flag))


def _own_devices(connector: Any, at_least: int = 0) -> list[int]:
    backend = connector.accelerator.backend
    return devices_of_worker(backend, detect(backend), at_least=at_least)


def _use_one(namespace: Namespace, connector: Any) -> None:
    name, count = connector.accelerator.backend_name, len(connector._parallel_devices)
    del connector._devices_flag[1:], connector._parallel_devices[1:]
    namespace.fabric_module("utilities.rank_zero").rank_zero_info(
        f"one of {count} devices of {name!r} is used in a notebook by default; devices={count} uses all of them, each"
        " in a process forked from the notebook's"
    )


def _index(connector: Any, listed: list[torch.device], asked: Any) -> list[torch.device]:
    accelerator, indices = connector.accelerator, connector._devices_flag
    for device in listed:
        accelerator.reject_foreign(device)
    given = [device.index for device in listed]
    written = f"parallel_devices={[str(device) for device in listed]}"
    if None in given and set(given) != {None}:
        raise DevicesError(f"{written}: some have an index and some not. Fix: all or none")
    unnamed = None in given
    meant = accelerator.parse_devices(len(listed)) if unnamed else _check_indices(connector, given, written)
    if asked != "auto":
        if len(indices) != len(listed) or (_names_indices(asked) and not unnamed and indices != given):
            raise _contradiction(written, asked)
        if unnamed:
            meant = indices
    return list(accelerator.get_parallel_devices(meant))


def _index_one(connector: Any, device: torch.device, asked: Any) -> torch.device:
    indices: list[int] = connector._devices_flag
    if asked != "auto" and len(indices) != 1:
        raise DevicesError(
            f"{type(connector._strategy_flag).__name__} needs one device, but devices={asked!r} selects"
            f" {len(indices)}. Fix: devices=1"
        )
    if device.index is None:
        return connector.accelerator.get_parallel_devices(indices)[0]
    written = f"device='{device}'"
    _check_indices(connector, [device.index], written)
    if _names_indices(asked) and indices != [device.index]:
        raise _contradiction(written, asked)
    return device


def _names_indices(asked: Any) -> bool:
    return isinstance(asked, (list, tuple)) or (isinstance(asked, str) and "," in asked)


def _check_indices(connector: Any, indices: list[int], written: str) -> list[int]:
    try:
        checked: list[int] = connector.accelerator.parse_devices(indices)
    except DevicesError as error:
        raise DevicesError(str(error).replace(f"devices={indices!r}", f"{written} of the strategy", 1)) from None
    return checked


def _contradiction(written: str, asked: Any) -> DevicesError:
    return DevicesError(f"{written} contradicts devices={asked!r}. Fix: leave one out")
