"""Optimizers on a chip: fused kernels, and parameters that a module replaced when it moved there.

A module keeps its parameters in ``to()`` if torch can put the chip's memory behind them. If it cannot, an optimizer
would step parameters that the model no longer uses, and shared weights would become two.

A vendor's fused class may count its steps for each group of parameters, where torch counts them for each parameter.
Without its count a state begins its bias correction anew, and torch raises no error. So each saved state has both.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.weak import WeakTensorKeyDictionary

from northbridge.backend import Backend, reject_denied
from northbridge.errors import CheckpointError, UnsupportedError, WrongDeviceError

State = dict[str, Any]

_SEVERAL_VECTORS = 128
"""Weights of the trial step: kernels have a path of their own for whole vectors, of up to 64 elements."""


def reject_fused(backend: Backend, optimizer: Optimizer) -> None:
    """Raise :class:`UnsupportedError` for ``fused=True`` if the chip has no kernels for it, or its vendor own classes.

    A vendor's class may compute another formula, so the user has to name it. It is refused for sharded parameters.
    torch's kernel is refused if it cannot step the 16-bit dtypes of the parameters.
    """
    _reject_sharded(backend, optimizer)
    if not any(group.get("fused") for group in optimizer.param_groups):
        return
    asked = f"{type(optimizer).__name__}(fused=True)"
    what = f"{asked}: {backend.name!r} has no fused optimizers"
    reject_denied(backend, "fused_optimizers", what, "leave fused= out")
    fused = backend.acceleration.fused_optimizers()
    if fused:
        kind = fused.get(type(optimizer))
        instead = "leave fused= out" if kind is None else _line(kind, optimizer)
        raise UnsupportedError(
            f"{asked}: torch has no fused kernel of it for {backend.name!r}. Fix: {instead}",
            capability="fused_optimizers",
        )
    _reject_narrow(asked, optimizer)


def _reject_narrow(asked: str, optimizer: Optimizer) -> None:
    """Take a trial step in each 16-bit dtype; torch's CPU kernel of SGD skips most weights up to 2.13."""
    kind = next(kind for kind in type(optimizer).__mro__ if kind.__module__.startswith("torch.optim."))
    if kind is torch.optim.Optimizer:  # another package's class, with arguments of its own
        return
    fused = [each for group in optimizer.param_groups if group.get("fused") for each in group["params"]]
    for dtype, device in {(each.dtype, each.device): None for each in fused if each.dtype.itemsize == 2}:
        weights = torch.zeros(_SEVERAL_VECTORS, dtype=dtype, device=device, requires_grad=True)
        weights.grad = torch.ones_like(weights)
        trial: Any = kind
        try:
            trial([weights], lr=1.0, fused=True).step()
            stayed = int((weights == 0).sum())
            wrong = f"it leaves {stayed} of {_SEVERAL_VECTORS} weights unchanged" if stayed else None
        except RuntimeError as error:
            wrong = str(error).partition(" Fix: ")[0].rstrip(".")
        if wrong:
            raise UnsupportedError(
                f"{asked} in {dtype} on {device}: {wrong}. Fix: leave fused= out", capability="fused_optimizers"
            )


def _reject_sharded(backend: Backend, optimizer: Optimizer) -> None:
    for torch_class, kind in backend.acceleration.fused_optimizers().items():
        parameters = (each for group in optimizer.param_groups for each in group["params"])
        if isinstance(optimizer, kind) and any(hasattr(each, "device_mesh") for each in parameters):  # a DTensor
            name = type(optimizer).__name__
            raise UnsupportedError(
                f"{name} takes no sharded parameters: torch cannot spread the vendor's operators."
                f" Fix: torch.optim.{torch_class.__name__}",
                capability="fused_optimizers",
            )


def _line(kind: type[Optimizer], optimizer: Optimizer) -> str:
    """Return the lines that build the vendor's class with the arguments of ``optimizer``."""
    known = inspect.signature(kind).parameters
    said = ", ".join(f"{name}={value!r}" for name, value in optimizer.defaults.items() if name in known)
    return (
        f"from {kind.__module__} import {kind.__name__}; {kind.__name__}(params, {said}); its epsilon and its defaults"
        " differ from torch's"
    )


def keep_counts(backend: Backend, optimizer: Optimizer) -> None:
    """Let the states of ``optimizer`` open in torch's class and in the vendor's; call it once for each optimizer.

    Loading raises :class:`CheckpointError` for options of one class that the other lacks.
    """
    if isinstance(optimizer, tuple(backend.acceleration.fused_optimizers().values())):
        optimizer.register_state_dict_post_hook(_count_by_parameter)
        optimizer.register_load_state_dict_pre_hook(_count_by_group)
    elif type(optimizer).__module__.startswith("torch.optim."):  # another package's class may count as it likes
        optimizer.register_load_state_dict_pre_hook(_count_by_parameter_alone)


def _count_by_parameter(_optimizer: Optimizer, state: State) -> State:
    """Add the count of each group to its parameters."""
    states = dict(state["state"])
    for group in state["param_groups"]:
        if "step" in group:
            # A tensor for each: torch counts in place.
            counts = {each: torch.tensor(float(group["step"])) for each in group["params"] if each in states}
            states |= {each: {**states[each], "step": count} for each, count in counts.items()}
    return {**state, "state": states}


def _count_by_parameter_alone(optimizer: Optimizer, state: State) -> State:
    """Move the count of each group to its parameters, for torch's class."""
    if any(group.get("bias_correction") is False for group in state["param_groups"]):
        raise CheckpointError(
            f"the state has bias_correction=False, which {type(optimizer).__name__} lacks. Fix: load it with the class"
            " that saved it"
        )
    foreign = {"step", "bias_correction"}
    state = _count_by_parameter(optimizer, state)
    groups = [
        {key: value for key, value in group.items() if key not in foreign or key in optimizer.defaults}
        for group in state["param_groups"]
    ]
    return {**state, "param_groups": groups}


_WITHOUT_COUNTERPART = ("amsgrad", "maximize")
"""Options of torch's optimizers that no vendor's class has."""


def _count_by_group(optimizer: Optimizer, state: State) -> State:
    """Add the count of the parameters to their group, for a vendor's class."""
    name = type(optimizer).__name__
    groups: list[State] = []
    for group in state["param_groups"]:
        unknown = [f"{key}=True" for key in _WITHOUT_COUNTERPART if group.get(key) and key not in optimizer.defaults]
        if group.get("decoupled_weight_decay") is False and group["weight_decay"] != 0:
            unknown.append("Adam's weight_decay, which is part of the gradient")
        if unknown:
            raise CheckpointError(
                f"the optimizer's state was saved with {unknown[0]}, which {name} lacks. Fix: load it with the class"
                " that saved it"
            )
        states = (state["state"].get(each, {}) for each in group["params"])
        counts = {int(each["step"]) for each in states if "step" in each}
        if "step" not in group and len(counts) > 1:
            raise CheckpointError(
                f"parameters of one group have taken {min(counts)} to {max(counts)} steps, and {name} counts one"
                " number for all. Fix: load the state with the class that saved it"
            )
        groups.append({**group, **({"step": counts.pop()} if counts and "step" not in group else {})})
    return {**state, "param_groups": groups}


_successors = WeakTensorKeyDictionary()
"""The successor of each living parameter."""

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
    _successors[old] = new


def follow(optimizer: Any) -> None:
    """Let ``optimizer`` step the successors of its parameters; its state moves along."""
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
    if not isinstance(state, dict):
        return state
    is_beside = {key: isinstance(each, torch.Tensor) and each.device == old for key, each in state.items()}
    # The optimizer itself chooses the device of its step count.
    return {key: each.to(new) if is_beside[key] and key != "step" else each for key, each in state.items()}


def _newest(parameter: Any) -> Any:
    while parameter in _successors:
        parameter = _successors[parameter]
    return parameter


def keeps_parameters(device: torch.device) -> bool:
    """True if a module's parameters stay the same objects when it moves from the CPU to ``device``."""
    if torch.__future__.get_swap_module_params_on_conversion():  # then a parameter becomes the tensor on the device
        return True
    functions: Any = torch  # torch's type stubs lack this function
    return bool(functions._has_compatible_shallow_copy_type(torch.empty(0), torch.empty(0, device=device)))
