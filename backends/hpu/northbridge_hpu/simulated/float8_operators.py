"""The vendor's operators of float8, which quantized models call: casts and products, in the range of the generation."""

from __future__ import annotations

from typing import Any

import torch

from northbridge_hpu.simulated.float8 import to_float8

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


def _set_is_dynamic_quantization(is_dynamic: bool, /) -> None:
    """Accept whether a model is quantized with scales of each batch; the operators here do not depend on it."""


def define() -> None:
    """Define the operators in ``torch.ops.hpu``, for scales that are tensors and for scales that are numbers."""
    if _library:
        return
    kind_of_library: Any = torch.library.Library  # untyped
    _library.append(kind_of_library("hpu", "FRAGMENT"))
    for name, schema in _SCHEMAS.items():
        for overload, kind in (("", "Tensor"), (".scalar", "float")):
            _library[0].define(name + overload + schema.format(scale=kind))
            _library[0].impl(name + overload, globals()[name], "CompositeExplicitAutograd")


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
