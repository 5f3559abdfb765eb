"""`init_device_mesh` takes a device type that is not all letters for one with an index, and refuses it."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch.distributed.device_mesh as device_mesh


class _Letters(str):
    """A name that says of itself that it is all letters."""

    def isalpha(self) -> bool:
        return True


def accept_in_meshes(name: str) -> None:
    """Let `init_device_mesh`, wherever it has been imported to, make meshes of the device type `name`.

    FSDP2 and Lightning make theirs by it.
    """
    if name.isalpha():
        return
    original = device_mesh.init_device_mesh

    @functools.wraps(original)
    def init_device_mesh(device_type: str, *args: Any, **options: Any) -> device_mesh.DeviceMesh:
        if device_type != name:
            return original(device_type, *args, **options)
        mesh = original(_Letters(name), *args, **options)
        mesh._device_type = name  # Dynamo knows no other than plain strings
        return mesh

    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("init_device_mesh") is original:
            module.__dict__["init_device_mesh"] = init_device_mesh
