"""Checks for tensors of a model that the chip or its communication library does not support, before training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from northbridge.discovery.nested_tensors import has_kernel, has_nested_tensors
from northbridge.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

    from northbridge.backend import Backend


def reject_tensors(backend: Backend, module: torch.nn.Module, device: torch.device) -> None:
    """Raise :class:`UnsupportedError` for a complex, sparse or nested tensor of ``module`` that ``device`` lacks."""
    import torch

    for kind, name, tensor in tensors_of(module):
        what = f"the {kind} {name!r}"
        if tensor.is_complex():
            dtype = str(tensor.dtype).removeprefix("torch.")
            why = _why_no_dtype(tensor.dtype, device)
            _reject(why, "complex", f"{what} is {dtype}, but {backend.name!r} cannot hold it", "torch.view_as_real()")
        elif tensor.layout is torch.sparse_coo:
            why = _why_no_sparse(device)
            _reject(why, "sparse", f"{what} is sparse, but {backend.name!r} has no sparse tensors", "to_dense()")
        elif tensor.is_nested:  # a jagged tensor consists of dense tensors
            known = tensor.layout is not torch.strided or has_nested_tensors(device.type)
            what = f"{what} is nested, but {backend.name!r} has no nested tensors"
            _reject(None if known else "", "nested", what, "to_padded_tensor(0.0)")
        elif tensor.layout is not torch.strided and not tensor.is_mkldnn:
            known = has_kernel("aten::addmm", "SparseCsr", device.type)
            layout = str(tensor.layout).removeprefix("torch.")
            what = f"{what} is {layout}, but {backend.name!r} does not support it"
            _reject(None if known else "", "sparse", what, "to_dense()")


def reject_sparse_gradients(backend: Backend, module: torch.nn.Module, device: torch.device) -> None:
    """Raise :class:`UnsupportedError` for a layer of ``module`` whose gradients ``device`` cannot hold."""
    for layer in _with_sparse_gradients(module):
        why = _why_no_sparse(device)
        _reject(why, "sparse", f"{layer}, but {backend.name!r} has no sparse tensors", _DENSE)


def reject_to_add_sparse_gradients(backend: Backend, module: torch.nn.Module, device: torch.device) -> None:
    """Raise :class:`UnsupportedError` for a layer of ``module`` whose gradients the ranks cannot add up."""
    for layer in _with_sparse_gradients(module):
        if not has_kernel("c10d::allreduce_", "Sparse", device.type):
            what = f"{layer}, but {backend.collective.name!r} cannot add up sparse gradients"
            _reject("", "sparse", what, _DENSE)


_DENSE = "sparse=False, and Adam instead of SparseAdam"


def _reject(why: str | None, capability: str, what: str, instead: str) -> None:
    if why is not None:
        raise UnsupportedError(f"{what}{why and f' ({why})'}. Fix: {instead}", capability=capability)


def tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Yield the kind ("parameter" or "buffer"), the name and the tensor of each parameter and buffer of ``module``."""
    for name, parameter in module.named_parameters():
        yield "parameter", name, parameter
    for name, buffer in module.named_buffers():
        yield "buffer", name, buffer


def _with_sparse_gradients(module: torch.nn.Module) -> Iterator[str]:
    from torch.nn import Embedding, EmbeddingBag

    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())  # torch's list of what DDP ignores
    for name, layer in module.named_modules():
        is_sparse = isinstance(layer, (Embedding, EmbeddingBag)) and layer.sparse
        is_trained = is_sparse and any(each.requires_grad for each in layer.parameters())  # its weight may be computed
        if is_trained and f"{name}.weight" not in ignored:
            yield f"{name!r} is {type(layer).__name__}(sparse=True)"


def _why_no_dtype(dtype: torch.dtype, device: torch.device) -> str | None:
    import torch

    try:
        torch.empty(1, dtype=dtype, device=device)
    except (RuntimeError, TypeError) as error:
        return _first_line(error)
    return None


def _why_no_sparse(device: torch.device) -> str | None:
    """Return the chip's error for the calls of sparse gradients and SparseAdam; None if it has sparse tensors."""
    import torch

    try:
        where = torch.zeros(1, 1, dtype=torch.int64, device=device)
        # torch warns if it is not told whether to check the indices.
        made = torch.sparse_coo_tensor(where, torch.ones(1, device=device), (1,), check_invariants=False)
        made.new(where, made._values(), made.size()).coalesce().to_dense()
    except (RuntimeError, TypeError) as error:
        return _first_line(error)
    return None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
