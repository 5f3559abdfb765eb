"""The float8 of the simulated cards: rounding, quantized inference, and the Transformer Engine."""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from northbridge_hpu.simulated.machine import generation

_E4M3_OF_GAUDI2 = 240.0
"""The largest e4m3 there; torch's float8_e4m3fn, and that of the third generation, end at 448."""


def largest(dtype: torch.dtype) -> float:
    """Return the largest number of the card's form of ``dtype``."""
    if dtype is torch.float8_e4m3fn and generation().number == 2:
        return _E4M3_OF_GAUDI2
    return torch.finfo(dtype).max


def to_float8(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round ``tensor`` to ``dtype``; what is beyond its range becomes its largest number."""
    end = largest(dtype)
    return tensor.clamp(-end, end).to(dtype)


_SCHEMAS = {
    "cast_to_fp8_v2": (
        "(Tensor input, {scale}? scale=None, bool stochastic_rounding=False, bool is_amax=False,"
        " ScalarType? dtype=None, int[]? scale_shape=None) -> (Tensor, Tensor)"
    ),
    "cast_from_fp8": "(Tensor input, {scale}? scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor",
    "fp8_gemm_v2": (
        "(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype, {scale}? A_scale_inv=None,"
        " {scale}? B_scale_inv=None, Tensor? bias=None, bool accumulate=False, int[]? B_scale_shape=None) -> Tensor"
    ),
}


_library: list[Any] = []
_Namespace: Any = type(torch.ops.hpu)


class _Operators(_Namespace):  # type: ignore[misc]  # torch's class is Any
    """``torch.ops.hpu``, which says of an absent operator that it is not simulated."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            loader: Any = sys.modules["habana_frameworks"].__loader__
            raise AttributeError(loader.stand_ins.without(f"torch.ops.hpu.{name}")) from None


def _set_is_dynamic_quantization(is_dynamic: bool, /) -> None:
    """Accept whether a model is quantized with scales of each batch; the operators here do not depend on it."""


def define_operators() -> None:
    """Define the operators in ``torch.ops.hpu``, for scales that are tensors and for scales that are numbers."""
    if _library:
        return
    kind_of_library: Any = torch.library.Library  # untyped
    _library.append(kind_of_library("hpu", "FRAGMENT"))
    for name, schema in _SCHEMAS.items():
        for overload, kind in (("", "Tensor"), (".scalar", "float")):
            _library[0].define(name + overload + schema.format(scale=kind))
            _library[0].impl(name + overload, globals()[name], "CompositeExplicitAutograd")
    operators: Any = torch.ops.hpu
    operators.__class__ = _Operators


def cast_to_fp8_v2(
    input: torch.Tensor,  # noqa: A002 - the vendor's name
    scale: Any = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
    dtype: torch.dtype | None = None,
    scale_shape: list[int] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiply by ``scale``, round to ``dtype``; return the result, and the largest value if ``is_amax``."""
    if stochastic_rounding:
        raise NotImplementedError("the simulated Gaudi does not round stochastically")
    scaled = input.float() if scale is None else input.float() * _shaped(scale, scale_shape)
    amax = input.abs().max().float() if is_amax else input.new_zeros((), dtype=torch.float32)
    return to_float8(scaled, dtype or torch.float8_e5m2), amax


def cast_from_fp8(
    input: torch.Tensor,  # noqa: A002 - the vendor's name
    scale: Any,
    out_dtype: torch.dtype,
    scale_shape: list[int] | None = None,
) -> torch.Tensor:
    """Widen a tensor of float8 to ``out_dtype``, and multiply it by ``scale``."""
    wide = input.float()
    return (wide if scale is None else wide * _shaped(scale, scale_shape)).to(out_dtype)


def fp8_gemm_v2(
    A: torch.Tensor,
    trans_A: bool,
    B: torch.Tensor,
    trans_B: bool,
    D: torch.Tensor | None,
    out_dtype: torch.dtype,
    A_scale_inv: Any = None,
    B_scale_inv: Any = None,
    bias: torch.Tensor | None = None,
    accumulate: bool = False,
    B_scale_shape: list[int] | None = None,
) -> torch.Tensor:
    """Multiply two matrices of float8, and their scales; sums are in float32."""
    left, right = (A.float().mT if trans_A else A.float()), (B.float().mT if trans_B else B.float())
    product = left @ right
    for scale, shape in ((A_scale_inv, None), (B_scale_inv, B_scale_shape)):
        product = product if scale is None else product * _shaped(scale, shape)
    if bias is not None:
        product = product + bias
    if accumulate and D is not None:
        product = product + D
    return product.to(out_dtype)


def _shaped(scale: Any, shape: list[int] | None) -> Any:
    return scale.reshape(shape) if shape and isinstance(scale, torch.Tensor) else scale


class Format(enum.Enum):
    """The dtypes of the forward and of the backward pass."""

    E5M2 = (torch.float8_e5m2, torch.float8_e5m2)
    HYBRID = (torch.float8_e4m3fn, torch.float8_e5m2)


@dataclass(frozen=True)
class DelayedScaling:
    """Scales come from the largest values of earlier steps; the defaults are the simulation's own."""

    margin: int = 0
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1
    amax_compute_algo: str = "most_recent"
    reduce_amax: bool = True


_recipes: list[DelayedScaling | None] = [None]
"""The recipe of the innermost ``fp8_autocast``; None where it is off."""


@contextmanager
def fp8_autocast(enabled: bool = False, fp8_recipe: DelayedScaling | None = None) -> Iterator[None]:
    """Compute in float8 inside the ``with``."""
    _recipes.append((fp8_recipe or DelayedScaling()) if enabled else None)
    try:
        yield
    finally:
        _recipes.pop()


def is_fp8_enabled() -> bool:
    """Return True inside an ``fp8_autocast`` that is enabled."""
    return _recipes[-1] is not None


class FP8GlobalStateManager:
    """The state of ``fp8_autocast``, as a class."""

    is_fp8_enabled = staticmethod(is_fp8_enabled)


class _Scale:
    """The scale of one tensor of a layer, from the largest values of earlier steps."""

    def __init__(self, history: list[float], steps: int = 0) -> None:
        self.history = deque(history)
        self.steps = steps
        self.amax = 0.0

    def quantize(self, tensor: torch.Tensor, dtype: torch.dtype, recipe: DelayedScaling) -> torch.Tensor:
        """Return ``tensor`` as rounded to float8 and scaled back, in float32; note its largest value."""
        own = float(tensor.detach().abs().max()) if tensor.numel() else 0.0
        if not self.history or self.steps % recipe.interval == 0:
            seen = list(self.history) or [own]
            self.amax = seen[-1] if recipe.amax_compute_algo == "most_recent" else max(seen)
        self.steps += 1
        self.history.append(own)
        while len(self.history) > recipe.amax_history_len:
            self.history.popleft()
        scale = largest(dtype) / self.amax / 2**recipe.margin if self.amax else 1.0
        return to_float8(tensor.float() * scale, dtype).float() / scale


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: torch.Tensor, layer: Linear, recipe: DelayedScaling) -> Any:
        dtype = recipe.fp8_format.value[0]
        rows = given.reshape(-1, given.shape[-1])
        left = layer.scales["input"].quantize(rows, dtype, recipe)
        right = layer.scales["weight"].quantize(weight, dtype, recipe)
        ctx.save_for_backward(left, right)
        ctx.layer, ctx.recipe, ctx.shape, ctx.dtypes = layer, recipe, given.shape, (given.dtype, weight.dtype)
        return (left @ right.t()).reshape(*given.shape[:-1], len(weight)).to(torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        left, right = ctx.saved_tensors
        (gradient,) = gradients
        rows = gradient.reshape(-1, gradient.shape[-1])
        lost = ctx.layer.scales["gradient"].quantize(rows, ctx.recipe.fp8_format.value[1], ctx.recipe)
        return (lost @ right).reshape(ctx.shape).to(ctx.dtypes[0]), (lost.t() @ left).to(ctx.dtypes[1]), None, None


class Linear(torch.nn.Module):
    """A linear layer, computed in float8 under ``fp8_autocast``; its output is bfloat16 there."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        params_dtype: torch.dtype | None = None,
        skip_weight_param_allocation: bool = False,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scales = {name: _Scale([]) for name in ("input", "weight", "gradient")}
        plain = torch.nn.Linear(in_features, out_features, bias, dtype=params_dtype)
        self.bias = plain.bias
        if not skip_weight_param_allocation:
            self.weight = plain.weight

    def forward(self, inp: torch.Tensor) -> torch.Tensor:
        """Compute the layer; ``inp`` has its features in the last dimension."""
        recipe = _recipes[-1]
        if recipe is None:
            return torch.nn.functional.linear(inp, self.weight, self.bias)
        result: torch.Tensor = _Product.apply(inp, self.weight, self, recipe)  # type: ignore[no-untyped-call]
        return result if self.bias is None else result + self.bias.to(result.dtype)

    def get_extra_state(self) -> Any:
        """Return the histories, which a checkpoint of the layer has beside its parameters."""
        return {name: (list(scale.history), scale.steps) for name, scale in self.scales.items()}

    def set_extra_state(self, state: Any) -> None:
        """Go on with the histories of a checkpoint."""
        self.scales = {name: _Scale(*each) for name, each in state.items()}
