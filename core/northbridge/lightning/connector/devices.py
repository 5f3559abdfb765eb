"""Reconciliation of a strategy object's devices, or those of a Ray worker, with ``devices=``."""

from __future__ import annotations

import sys
from typing import Any

import torch

from northbridge.discovery.present import detect
from northbridge.errors import DevicesError
from northbridge.launch.ray_worker import devices_of_worker, runtime_context
from northbridge.lightning.accelerators.device_indices import names_indices, show_devices
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.user_classes import derives_from_ray
from northbridge.untrusted.text import shorten


def settle_devices(namespace: Namespace, connector: Any, asked: Any) -> None:
    """Give the devices of the user's strategy object their indices, and reject contradictions with ``devices=asked``.

    A list of devices without an index means one for each local rank: ``[torch.device("acme")] * 8``. If ``devices=`` is
    given too, both must mean the same number, and the indices of ``devices=`` are used. A single device without an
    index is the device of ``devices=``, or the first. An index that this machine lacks is an error. If neither says how
    many, a notebook uses one device, as Lightning does on CUDA. Called after the connector has read ``devices=``.
    """
    strategy = connector._strategy_flag
    if derives_from_ray(type(strategy)):
        settle_worker(connector, asked)
        return
    if runtime_context() is not None:
        settle_share(connector, asked)
    listed = getattr(strategy, "parallel_devices", None)
    if listed:
        strategy.parallel_devices = connector._parallel_devices = _index(connector, listed, asked)
    elif getattr(getattr(strategy, "_root_device", None), "type", None) == connector.accelerator.backend.device.type:
        strategy._root_device = _index_one(connector, strategy._root_device, asked)
    elif asked == "auto" and namespace.connector._IS_INTERACTIVE and len(connector._parallel_devices) > 1:
        _use_one(namespace, connector)


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
    written = f"parallel_devices={shorten(str([str(device) for device in listed]))}"
    if None in given and set(given) != {None}:
        raise DevicesError(f"{written}: some have an index and some not. Fix: all or none")
    unnamed = None in given
    meant = accelerator.parse_devices(len(listed)) if unnamed else _check_indices(connector, given, written)
    if asked != "auto":
        if len(indices) != len(listed) or (names_indices(asked) and not unnamed and indices != given):
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
    if names_indices(asked) and indices != [device.index]:
        raise _contradiction(written, asked)
    return device


def _check_indices(connector: Any, indices: list[int], written: str) -> list[int]:
    try:
        checked: list[int] = connector.accelerator.parse_devices(indices)
    except DevicesError as error:
        raise DevicesError(str(error).replace(show_devices(indices), f"{written} of the strategy", 1)) from None
    return checked


def _contradiction(written: str, asked: Any) -> DevicesError:
    return DevicesError(f"{written} contradicts devices={asked!r}. Fix: leave one out")


def settle_worker(connector: Any, asked: Any) -> None:
    """Let a strategy of Ray's find the device of this worker under each local rank: Ray has one worker for each."""
    context = sys.modules["ray.train"].get_context()
    workers, ranks = int(context.get_local_world_size()), int(context.get_world_size())
    own = _own_devices(connector, at_least=1)
    if len(own) > 1:
        raise DevicesError(f"Ray gave this worker {len(own)} devices for one rank. Fix: ask for 1")
    given = getattr(connector._strategy_flag, "parallel_devices", None)
    if given and [each.index for each in given] == own * workers:  # of a strategy that has trained here before
        given = None
    if given or (asked not in ("auto", -1, "-1", 1, "1", workers, str(workers)) and connector._devices_flag != own):
        written = f"parallel_devices={[str(each) for each in given]}" if given else f"devices={asked!r}"
        raise DevicesError(f"{written}: Ray gave device {own[0]}. Fix: devices='auto'")
    connector._num_nodes_flag = -(-ranks // workers)
    _use(connector, own * workers)


def settle_share(connector: Any, asked: Any) -> None:
    """Use the devices that Ray counts for this worker, such as a trial of Ray Tune, which has no strategy of Ray's."""
    own = _own_devices(connector)
    if not own:
        return
    indices: list[int] = connector._devices_flag
    if asked in ("auto", -1, "-1"):
        indices = own
    elif not names_indices(asked) and len(indices) <= len(own):
        indices = own[: len(indices)]
    if not set(indices) <= set(own):
        held = ", ".join(map(str, own))
        raise DevicesError(f"devices={asked!r}: Ray gave device {held}. Fix: devices='auto'")
    _use(connector, indices)


def _own_devices(connector: Any, at_least: int = 0) -> list[int]:
    backend = connector.accelerator.backend
    return devices_of_worker(backend, detect(backend), at_least=at_least)


def _use(connector: Any, indices: list[int]) -> None:
    connector._devices_flag = list(indices)
    connector._parallel_devices = list(connector.accelerator.get_parallel_devices(connector._devices_flag))
