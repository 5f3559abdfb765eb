"""What a captured training step cannot hold, rejected before it is captured."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.errors import UnsupportedError
from northbridge.graphs.signature import addresses, reject_hooks

_WITHIN_A_STEP = ("on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step")
_WITHOUT = "train without CapturedStep"
_STOCK = ("Callback", "ModelHooks", "LightningModule")


def _unsupported(found: str, fix: str) -> UnsupportedError:
    return UnsupportedError(f"a captured step cannot be used: {found}. Fix: {fix}", capability="graphs")


def reject_trainer(trainer: Any, module: Any, callback: Any) -> None:
    """Raise :class:`UnsupportedError` for a Trainer or a LightningModule whose step is not one piece of chip work."""
    if getattr(trainer.strategy, "backend", None) is None:
        found = f"{type(trainer.accelerator).__name__} is not a chip of Northbridge"
        raise _unsupported(found, f"accelerator= one of them, or {_WITHOUT}")
    if any(isinstance(each, type(callback)) for each in trainer.callbacks if each is not callback):
        raise _unsupported(f"the Trainer has {type(callback).__name__} twice", "use one")
    if not module.automatic_optimization:
        raise _unsupported("the module optimizes by hand", "call northbridge.GraphedCallable in training_step")
    reject_accumulation(trainer)
    if getattr(trainer.precision_plugin, "scaler", None) is not None:
        raise _unsupported("a gradient scaler reads the gradients on the host", "train in bfloat16")
    if torch.is_anomaly_enabled():
        raise _unsupported("detect_anomaly=True reads every gradient on the host", "leave it out")
    if len(trainer.optimizers) != 1:
        raise _unsupported(f"the module has {len(trainer.optimizers)} optimizers", "use one")
    for owner in (module, *(each for each in trainer.callbacks if each is not callback)):
        for name in (*_WITHIN_A_STEP, *(("optimizer_step",) if owner is module else ())):
            if _is_overridden(owner, name):
                found = f"{type(owner).__name__}.{name} would run while the step is captured and never in a replay"
                raise _unsupported(found, f"move it to on_train_batch_end, or {_WITHOUT}")


def reject_accumulation(trainer: Any) -> None:
    """Raise :class:`UnsupportedError` if gradients are accumulated now, which a callback may begin in any epoch."""
    if trainer.accumulate_grad_batches != 1:
        found = f"accumulate_grad_batches={trainer.accumulate_grad_batches}"
        raise _unsupported(found, f"use larger batches, or {_WITHOUT}")


def _is_overridden(owner: Any, name: str) -> bool:
    method = getattr(type(owner), name, None)
    return method is not None and method.__qualname__.partition(".")[0] not in _STOCK


def reject_module(module: torch.nn.Module, backend: Backend) -> None:
    """Raise :class:`UnsupportedError` if a part of ``module`` or a parameter has a hook, or is sharded."""
    if any(hasattr(each, "device_mesh") for each in module.parameters()):  # a DTensor
        raise _unsupported(
            "the model is sharded by hooks, which a replay does not run", f"strategy='ddp', or {_WITHOUT}"
        )
    reject_hooks(module, backend)
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise _unsupported(f"the parameter {name!r} has a hook, which a replay does not run", "remove it")


def reject_optimizer(optimizer: Any) -> None:
    """Raise :class:`UnsupportedError` if ``optimizer`` keeps a tensor on the CPU: a graph would freeze its value."""
    kind = type(getattr(optimizer, "optimizer", optimizer)).__name__
    states = [item for state in optimizer.state.values() for item in state.items()]
    rates = [item for group in optimizer.param_groups for item in group.items()]
    for name, value in states + rates:
        if isinstance(value, torch.Tensor) and value.device.type == "cpu":
            is_capturable = "capturable" in optimizer.defaults
            fix = f"{kind}(…, capturable=True)" if is_capturable else f"use AdamW with capturable=True, or {_WITHOUT}"
            fix = "put it on the chip" if name == "lr" else fix
            raise _unsupported(f"{kind} keeps {name!r} on the CPU, so that each replay would use one value", fix)


def numbers_of(optimizer: Any, module: torch.nn.Module) -> Hashable:
    """Return all that a graph of ``optimizer`` has built in: numbers in Python, and addresses of the parameters."""
    groups = tuple(
        (name, value)
        for group in optimizer.param_groups
        for name, value in sorted(group.items())
        if isinstance(value, (int, float, str, tuple))
    )
    counts = tuple(
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, (int, float))
    )
    return groups, counts, addresses(module.parameters())
