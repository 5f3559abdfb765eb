"""The classes of one face, made once from the bodies that all faces share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from northbridge.lightning.accelerator import make_accelerator
from northbridge.lightning.checkpoint import make_checkpoint_io
from northbridge.lightning.ddp import make_ddp_strategy
from northbridge.lightning.faces import Face
from northbridge.lightning.launcher import make_launcher
from northbridge.lightning.single import make_single_device_strategy


@dataclass(frozen=True)
class Classes:
    """What one face gets from us. ``Any``, because each derives from a class of that face's Lightning."""

    accelerator: Any
    single_device: Any
    ddp: Any
    checkpoint_io: Any
    launcher: Any


@cache
def classes(face: Face) -> Classes:
    """Return the classes for ``face``; its Lightning must be importable.

    They say that they live in ``face.home``, which offers them under these names, so that they pickle.
    """
    checkpoint_io = make_checkpoint_io(face)
    launcher = make_launcher(face)
    ours = Classes(
        accelerator=make_accelerator(face),
        single_device=make_single_device_strategy(face, checkpoint_io),
        ddp=make_ddp_strategy(face, checkpoint_io, launcher),
        checkpoint_io=checkpoint_io,
        launcher=launcher,
    )
    for cls in (ours.accelerator, ours.single_device, ours.ddp, ours.checkpoint_io, ours.launcher):
        cls.__module__ = face.home
        cls.__qualname__ = cls.__name__
    return ours
