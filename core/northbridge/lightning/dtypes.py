"""Tensors of a dtype that the chip computes as another."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from northbridge.backend import Backend


class DtypeWarning(UserWarning):
    """A chip takes tensors of this dtype, and computes them as another."""


_warned: set[str] = set()


def warn_of_module(backend: Backend, module: torch.nn.Module) -> None:
    """Warn, once a process and dtype, where a parameter or buffer of ``module`` will not be computed as what it is.

    Not of whole numbers, which are counters there: a chip that holds them as int32 refuses those that do not fit.
    """
    _warn(backend, ((f"the parameter {name!r}", each) for name, each in module.named_parameters()), ("float64",))
    _warn(backend, ((f"the buffer {name!r}", each) for name, each in module.named_buffers()), ("float64",))


def warn_of_batch(backend: Backend, batch: Any) -> None:
    """Do the same for the tensors of a batch, whole numbers too."""
    import torch
    from lightning_utilities.core.apply_func import apply_to_collection

    found: list[torch.Tensor] = []
    apply_to_collection(batch, torch.Tensor, found.append)
    tensors = ((f"a tensor of shape {tuple(each.shape)} in the batch", each) for each in found)
    _warn(backend, tensors, ("float64", "int64"))


_CURES = {
    "float64": "make it float32, or keep to values that fit",
    "int64": "class labels and token ids fit; a number beyond 2^31 does not",
}


def _warn(backend: Backend, tensors: Iterable[tuple[str, torch.Tensor]], dtypes: tuple[str, ...]) -> None:
    claims = backend.present_capabilities().claims()
    for what, tensor in tensors:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype in dtypes and claims[dtype].denied and dtype not in _warned:
            _warned.add(dtype)
            warnings.warn(
                f"{what} is {dtype}, and {backend.name!r} has no {dtype}: {claims[dtype].reason}; {_CURES[dtype]}",
                DtypeWarning,
                stacklevel=3,
            )
