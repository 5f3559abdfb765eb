"""The devices of a Trainer or Fabric in a Ray worker: those that Ray gave the worker."""

from __future__ import annotations

import sys
from typing import Any

from northbridge.discovery.present import detect
from northbridge.errors import DevicesError
from northbridge.launch.ray_worker import devices_of_worker
from northbridge.lightning.accelerators.device_indices import names_indices


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
