"""Successors of parameters that a module replaced when it moved to the chip, for objects that hold the old ones.

A module keeps its parameters in ``to()`` if torch can put the chip's memory behind them. If it cannot, an optimizer
would step parameters that the model no longer uses, and shared weights would become two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from northbridge.errors import WrongDeviceError

if TYPE_CHECKING:
    import torch
    from torch.utils.weak import WeakTensorKeyDictionary

_KEPT = ("_backward_hooks", "_post_accumulate_grad_hooks")


@contextmanager
def following(module: torch.nn.Module) -> Iterator[None]:
    """Record the new parameters of ``module``, which the ``with`` block moves, and tie those that were shared."""
    before = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner._parameters.items()
        if parameter is not None
    ]
    yield
    newest: dict[int, torch.nn.Parameter] = {}
    for owner, name, old in before:
        now = getattr(owner, name, None)  # not of _parameters, which is not a dictionary in a scripted module
        if now is None or now is old:
            continue
        if id(old) not in newest:
            newest[id(old)] = now
            _succeed(old, now)
        elif now is not newest[id(old)]:
            setattr(owner, name, newest[id(old)])


def _succeed(old: torch.nn.Parameter, new: torch.nn.Parameter) -> None:
    vars(new).update({**vars(old), **vars(new)})
    for name in _KEPT:
        if getattr(old, name, None) is not None and getattr(new, name, None) is None:
            setattr(new, name, getattr(old, name))
    _successors()[old] = new


def follow(optimizer: Any) -> None:
    """Let ``optimizer`` step the successors of its parameters; its state moves along."""
    import torch

    for group in optimizer.param_groups:
        group["params"][:] = [_newest(each) for each in group["params"]]  # in place: some optimizers keep the list
    for old in [each for each in optimizer.state if isinstance(each, torch.Tensor)]:
        new = _newest(old)
        if new is not old:
            optimizer.state[new] = _moved(optimizer.state.pop(old), old.device, new.device)


def reject_left_behind(optimizer: Any, device: torch.device) -> None:
    """Raise :class:`WrongDeviceError` if ``optimizer`` steps parameters on the CPU that a move would have replaced.

    Other code has moved the model to ``device``, so the successors of these parameters are unknown.
    """
    left = [each for group in optimizer.param_groups for each in group["params"] if each.device.type == "cpu"]
    if left and device.type != "cpu" and not keeps_parameters(device):
        raise WrongDeviceError(
            f"{type(optimizer).__name__} would train {len(left)} parameters on 'cpu'. Fix: create it"
            f" after the model moves to '{device}'"
        )


def _moved(state: Any, old: torch.device, new: torch.device) -> Any:
    import torch

    if not isinstance(state, dict):
        return state
    is_beside = {key: isinstance(each, torch.Tensor) and each.device == old for key, each in state.items()}
    # The optimizer itself chooses the device of its step count.
    return {key: each.to(new) if is_beside[key] and key != "step" else each for key, each in state.items()}


def _newest(parameter: Any) -> Any:
    successors = _successors()
    while parameter in successors:
        parameter = successors[parameter]
    return parameter


def keeps_parameters(device: torch.device) -> bool:
    """True if a module's parameters stay the same objects when it moves from the CPU to ``device``."""
    import torch

    functions: Any = torch  # torch's type stubs lack this function
    return bool(functions._has_compatible_shallow_copy_type(torch.empty(0), torch.empty(0, device=device)))


_known: list[WeakTensorKeyDictionary] = []


def _successors() -> WeakTensorKeyDictionary:
    """Return the map from each living parameter to its successor."""
    from torch.utils.weak import WeakTensorKeyDictionary

    if not _known:
        _known.append(WeakTensorKeyDictionary())
    return _known[0]
