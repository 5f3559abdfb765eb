"""Warnings about tensors of a dtype that the chip computes as another."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from northbridge.lightning.plugins.containers import values_in
from northbridge.lightning.strategies.unsupported_tensors import tensors_of

if TYPE_CHECKING:
    import torch

    from northbridge.backend import Backend


class DtypeWarning(UserWarning):
    """A chip accepts tensors of this dtype, but computes them as another."""


_warned: set[str] = set()


def warn_of_module(backend: Backend, module: torch.nn.Module, precision: str = "32-true") -> None:
    """Warn, once for each process and reason, if the chip computes ``module`` in another dtype than its own.

    Integers are not reported: a module counts with them. A chip that stores them as int32 rejects larger ones.
    """
    _warn(backend, ((f"the {kind} {name!r}", each) for kind, name, each in tensors_of(module)), ("float64",))
    for kind, capability, what in _IN_FLOAT32 if not precision.endswith("-mixed") else ():
        found = next((name for name, each in module.named_modules() if _is_in_float32(each, kind)), None)
        if found is not None:
            _warn_of(backend, capability, f"{found!r} is a {what} in float32")
    if precision.startswith("bf16"):
        _warn_of(backend, "bfloat16_range", f"precision={precision!r} was asked for")


def warn_of_batch(backend: Backend, batch: Any) -> None:
    """Warn, as :func:`warn_of_module` does, about the tensors of a batch, including integers."""
    import torch

    found = [each for each in values_in(batch) if isinstance(each, torch.Tensor)]
    tensors = ((f"a tensor of shape {tuple(each.shape)} in the batch", each) for each in found)
    _warn(backend, tensors, ("float64", "int64"))


_CURES = {
    "float64": "make it float32, or keep to values that fit",
    "int64": "class labels and token ids fit; a number beyond 2^31 does not",
}


_IN_FLOAT32 = (
    ("conv._ConvNd", "float32_convolutions", "convolution"),
    ("linear.Linear", "float32_products", "linear layer"),
)
"""Kinds of torch's layers, the claim that each needs in float32, and its name."""

_UNSUPPORTED = {
    "float32_products": "does not compute it in float32",
    "float32_convolutions": "does not compute it in float32",
    "bfloat16_range": "does not have bfloat16's range in matrix products",
}


def _warn(backend: Backend, tensors: Iterable[tuple[str, torch.Tensor]], dtypes: tuple[str, ...]) -> None:
    left = set(dtypes)  # one question to the chip for each dtype, not for each tensor
    for what, tensor in tensors:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype in left:
            left.remove(dtype)
            _warn_of(backend, dtype, f"{what} is {dtype}", _CURES[dtype])


def _warn_of(backend: Backend, capability: str, what: str, cure: str = "") -> None:
    if capability in _warned:
        return
    claim = backend.present_capabilities().claims()[capability]
    if not claim.denied:
        return
    _warned.add(capability)
    lack = _UNSUPPORTED.get(capability, f"has no {capability}")
    warnings.warn(
        f"{what}, and {backend.name!r} {lack}: {claim.reason}{cure and f'; {cure}'}",
        DtypeWarning,
        stacklevel=4,
    )


def _is_in_float32(module: torch.nn.Module, kind: str) -> bool:
    import torch

    if not isinstance(module, attrgetter(kind)(torch.nn.modules)):
        return False
    # Not its weight: reading that of a parametrized layer computes it, and a spectral norm goes a step on.
    return any(each.dtype == torch.float32 for each in module.parameters())
