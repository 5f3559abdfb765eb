"""Injection of a fault into a process that has loaded a backend."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from tests.mutation.mutations import Mutation
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import northbridge


def mutate(backend: northbridge.Backend, mutation: Mutation) -> None:
    """Let ``mutation`` be wrong in this process from now on."""
    if mutation.kind in _OF_THE_DEVICE:
        method = getattr(backend.device, mutation.subject)
        setattr(backend.device, mutation.subject, _OF_THE_DEVICE[mutation.kind](method))
    else:
        mode: Any = Mutator(backend.device.type, mutation)
        mode.__enter__()  # as long as the process


class Mutator(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own __init_subclass__
    """Stands between torch and the device, and hands on what is wrong."""

    def __init__(self, device: str, mutation: Mutation) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device
        self._mutation = mutation

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call ``func``; torch calls this for every operator that reaches a kernel."""
        kwargs = kwargs or {}
        if str(func) != self._mutation.subject:
            return func(*args, **kwargs)
        if self._mutation.kind in _OF_COLLECTIVES:
            return func(*self._mutate_arguments(args), **kwargs)
        result = func(*args, **kwargs)
        first = result[0] if isinstance(result, tuple | list) else result
        if not isinstance(first, Tensor) or first.device.type != self._device or not first.is_floating_point():
            return result
        wrong = _OF_RESULTS[self._mutation.kind](first)
        return type(result)((wrong, *result[1:])) if isinstance(result, tuple | list) else wrong

    def _mutate_arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return _OF_COLLECTIVES[self._mutation.kind](args, rank=self._mutation.rank)


def _change_one(result: Tensor, place: int, change: Callable[[Tensor], Tensor]) -> Tensor:
    flat = result.cpu().reshape(-1)
    if flat.numel():
        flat[place] = change(flat[place])
    return result.copy_(flat.view(result.shape))


def _one_ulp_off(result: Tensor) -> Tensor:
    return _change_one(result, 0, lambda number: number.nextafter(number.new_tensor(float("inf"))))


def _round(result: Tensor) -> Tensor:
    return result.copy_(result.cpu().bfloat16().to(result.dtype))


def _wrong_dtype(result: Tensor) -> Tensor:
    return result.to(torch.float32 if result.dtype is torch.float16 else torch.float16)


_OF_RESULTS: dict[str, Callable[[Tensor], Tensor]] = {
    "one ulp off": _one_ulp_off,
    "rounded": _round,
    "wrong dtype": _wrong_dtype,
    "last lost": lambda result: _change_one(result, -1, torch.zeros_like),
}


def _on_one_rank(change: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Any, ...]]:
    """Return what changes the tensors that one rank gives."""

    def mutate_arguments(args: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
        if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == str(rank):
            for tensor in args[0]:
                change(tensor)
        return args

    return mutate_arguments


def _take_the_next_root(args: tuple[Any, ...], **_: int) -> tuple[Any, ...]:
    tensors, group, root, *rest = args
    world = torch.distributed.ProcessGroup.unbox(group).size()
    return (tensors, group, (root + 1) % world, *rest)


def _reverse(args: tuple[Any, ...], **_: int) -> tuple[Any, ...]:
    gathered, *rest = args
    return ([list(reversed(each)) for each in gathered], *rest)


_OF_COLLECTIVES: dict[str, Callable[..., tuple[Any, ...]]] = {
    "dropped": _on_one_rank(Tensor.zero_),
    "counted twice": _on_one_rank(lambda tensor: tensor.mul_(2)),
    "coarse": _on_one_rank(lambda tensor: tensor.copy_(tensor.bfloat16().to(tensor.dtype))),
    "wrong root": _take_the_next_root,
    "reversed": _reverse,
}


def _never_change(method: Callable[..., Any]) -> Callable[..., Any]:
    answers: list[Any] = []

    def answer(*args: Any) -> Any:
        if not answers:
            answers.append(method(*args))
        return answers[0]

    return answer


_OF_THE_DEVICE: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "does nothing": lambda _method: lambda *_: None,
    "never changes": _never_change,
}
