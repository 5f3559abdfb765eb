"""The operators that a chip denies or loosens: each call on the chip is watched, and held to the claim.

Operators are told apart by the names of the functions that users call, which torch hands to a mode for functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, get_overridable_functions
from torch.utils._pytree import tree_leaves, tree_map_only

import northbridge
from northbridge.capabilities import OPERATORS, Claim, Within

PROPERTY = "northbridge operator"
"""The name of the properties of a test that are the claims of the operators that it called."""

_PREFIXES = ("aten::", "torch.", "nn.functional.", "nn.")


def name_of(function: Any) -> str:
    """Return the operator's name: ``asin`` of ``torch.asin``, ``Tensor.asin_`` and the like, ``add`` of ``+``."""
    name = str(getattr(function, "__name__", ""))
    if name.startswith("__"):
        return "" if name in ("__get__", "__set__") else name.strip("_")
    return name.rstrip("_")


@cache
def known_operators() -> frozenset[str]:
    """Return the name of every operator that this torch lets a mode see."""
    functions: Iterable[Iterable[Any]] = get_overridable_functions().values()
    foreach = (each for each in dir(torch) if each.startswith("_foreach_"))
    return frozenset({name_of(each) for functions_of_one in functions for each in functions_of_one} | set(foreach))


def reject_unknown_operators(backend: str, names: Collection[str]) -> None:
    """Raise :class:`northbridge.PluginClaimError` for the first of ``names`` that is not an operator of this torch."""
    known = known_operators()
    for name in names:
        if name in known:
            continue
        bare = name
        for prefix in _PREFIXES:
            bare = bare.removeprefix(prefix)
        near = get_close_matches(bare.lower().replace(".", "_"), known, 1)
        fix = f"did you mean {near[0]!r}?" if near else "use the name of the function that a user calls"
        raise northbridge.PluginClaimError(
            f"backend {backend!r}: Capabilities(operators=…) names {name!r}, which is not an operator of"
            f" torch {torch.__version__}. Fix: {fix}",
            backend=backend,
        )


class OperatorWatch(TorchFunctionMode):
    """Holds each call of a claimed operator on a chip to its claim, and tells ``note`` the claim's name.

    A denied operator has to raise at the call, or while the process waits for the device after it. This is a refusal:
    :class:`UnsupportedError`. A loosened one has to give the CPU's numbers within its bound.
    """

    def __init__(self, backend: northbridge.Backend, note: Callable[[str], None]) -> None:
        super().__init__()
        self._backend, self._note = backend, note
        self._claims = backend.present_capabilities().operators

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, named = name_of(func), dict(kwargs or {})
        claim = self._claims.get(name)
        if claim is None or not any(map(self._is_on_the_chip, tree_leaves((args, named)))):
            return func(*args, **named)
        self._note(f"{OPERATORS}{name}")
        call = partial(func, *args, **named)
        return self._expect_error(name, claim, call) if isinstance(claim, Claim) else self._compare(name, claim, call)

    def _is_on_the_chip(self, value: Any) -> bool:
        device = value.device if isinstance(value, Tensor) else value
        return isinstance(device, torch.device) and device.type == self._backend.device.type

    def _expect_error(self, name: str, claim: Claim, call: Callable[[], Any]) -> Any:
        try:
            result = call()
            self._wait()
        except Exception as error:
            raise northbridge.UnsupportedError(
                f"{self._backend.name!r} denies the operator {name} ({claim.reason}), and it raised"
                f" {type(error).__name__}: {error}",
                capability=f"{OPERATORS}{name}",
            ) from error
        return result  # a test that works with it shows that the denial is wrong

    def _wait(self) -> None:
        try:
            self._backend.device.synchronize()
        except northbridge.UnsupportedError:
            return  # the vendor's module has no such function: it may never be late

    def _compare(self, name: str, claim: Within, call: partial[Any]) -> Any:
        given = tree_map_only(Tensor, lambda each: each.detach().to("cpu", copy=True), (call.args, call.keywords))
        result = call()
        jit: Any = torch.jit  # untyped
        if jit.is_tracing():  # the comparison would be recorded
            return result
        args, named = tree_map_only(torch.device, lambda _: torch.device("cpu"), given)
        with torch.no_grad():
            expected = call.func(*args, **named)
            for mine, cpus in zip(tree_leaves(result), tree_leaves(expected), strict=True):
                if _is_float32(mine) and _is_float32(cpus) and mine.shape == cpus.shape:
                    _assert_within(name, claim, mine.detach().cpu(), cpus)
        return result


def _is_float32(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float32


def _assert_within(name: str, claim: Within, found: Tensor, expected: Tensor) -> None:
    same = (found == expected) | (found.isnan() & expected.isnan())
    off = torch.where(same, 0.0, (found - expected).abs() / (1 + expected.abs()))
    far = ~(off <= claim.bound)
    if far.any():
        raise AssertionError(
            f"the operator {name} gives {found[far][0].item():g} where the CPU has {expected[far][0].item():g}, and"
            f" Within({claim.bound:g}, {claim.reason!r}) allows {claim.bound:g} × (1 + the size of the CPU's number)"
        )


class MovedResults(TorchFunctionMode):
    """Moves each result of a loosened operator, and its gradient, by the operator's bound, up or down."""

    def __init__(self, operators: Mapping[str, Claim | Within]) -> None:
        super().__init__()
        self._bounds = {name: claim.bound for name, claim in operators.items() if isinstance(claim, Within)}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        bound = self._bounds.get(name_of(func))
        if bound is None:
            return result
        if args and result is args[0]:  # an operator in place: others hold its result, too
            result.data.copy_(_move(result.data, bound))
            return result
        moved: Any = _Moved  # torch's apply is untyped
        return tree_map_only(
            Tensor, lambda each: moved.apply(each, bound) if each.is_floating_point() else each, result
        )


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, numbers: Tensor, bound: float) -> Tensor:
        ctx.bound = bound
        return _move(numbers, bound)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:  # torch's name
        return _move(grad_outputs[0], ctx.bound), None


def _move(numbers: Tensor, bound: float) -> Tensor:
    signs = torch.randint(0, 2, numbers.shape, generator=torch.Generator().manual_seed(2)) * 2 - 1
    return numbers + bound * signs * (1 + numbers.abs())
