"""The classes of one namespace, made once from the bodies that all namespaces share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from northbridge.lightning.accelerators.accelerator import make_accelerator
from northbridge.lightning.launchers.multiprocessing import make_launcher
from northbridge.lightning.launchers.subprocess_script import make_script_launcher
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.checkpoint_io import make_checkpoint_io
from northbridge.lightning.plugins.layer_sync import make_layer_sync
from northbridge.lightning.strategies.ddp import make_ddp_strategy
from northbridge.lightning.strategies.model_parallel import make_model_parallel_strategy
from northbridge.lightning.strategies.single_device import make_single_device_strategy
from northbridge.lightning.weights_agreement import make_weights_agreement


@dataclass(frozen=True)
class Classes:
    """What one namespace gets from us. ``Any``, because each derives from a class of that namespace's Lightning."""

    accelerator: Any
    single_device: Any
    ddp: Any
    model_parallel: Any
    checkpoint_io: Any
    script_launcher: Any
    launcher: Any
    layer_sync: Any
    """None for a Fabric."""

    weights_agreement: Any

    @property
    def strategies(self) -> tuple[Any, ...]:
        """Every strategy."""
        return self.single_device, self.ddp, self.model_parallel


@cache
def classes(namespace: Namespace) -> Classes:
    """Return the classes for ``namespace``; its Lightning must be importable.

    They say that they live in ``namespace.home``, which offers them under these names, so that they pickle.
    """
    checkpoint_io = make_checkpoint_io(namespace)
    script_launcher = make_script_launcher(namespace)
    launcher = make_launcher(namespace)
    ours = Classes(
        accelerator=make_accelerator(namespace),
        single_device=make_single_device_strategy(namespace, checkpoint_io),
        ddp=make_ddp_strategy(namespace, checkpoint_io, script_launcher, launcher),
        model_parallel=make_model_parallel_strategy(namespace, checkpoint_io, script_launcher),
        checkpoint_io=checkpoint_io,
        script_launcher=script_launcher,
        launcher=launcher,
        layer_sync=make_layer_sync(namespace),
        weights_agreement=make_weights_agreement(namespace),
    )
    for cls in filter(None, vars(ours).values()):
        cls.__module__ = namespace.home
        cls.__qualname__ = cls.__name__
    return ours
