"""Unsupported features and tensors, rejected before training starts, and warnings about dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage]  # base of all convolutions
from torch.nn.parallel.scatter_gather import scatter

from northbridge.backend import Backend, reject_denied
from northbridge.discovery.declared import get
from northbridge.discovery.torch_changes import has_kernel, has_nested_tensors
from northbridge.errors import UnsupportedError
from northbridge.lightning.plugins.containers import values_in

TRAINING_CLAIMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "fit": ("training", "use another accelerator; validation and prediction are allowed"),
        "checkpoint": ("checkpoints", "Trainer(enable_checkpointing=False), or no Fabric.save()"),
        "resume": ("resuming training", "leave ckpt_path= or Fabric.load() out"),
        "inference_mode": ("torch.inference_mode()", "torch.no_grad()"),
        "sum_all_reduce": ("all_reduce, which several ranks need", "devices=1"),
        "broadcast": ("broadcast, which several ranks need", "devices=1"),
        "all_gather": ("all_gather, which several ranks need", "devices=1"),
        "barrier": ("barrier, which several ranks need", "devices=1"),
        "sync_batchnorm": ("torch's SyncBatchNorm", "leave convert_sync_batchnorm() out"),
        "sharding": ("FSDP2 and tensor parallel", "strategy='ddp', or devices=1"),
        "fsdp": ("torch's FSDP", "strategy='ddp', or FSDP2 by ModelParallelStrategy()"),
        "ddp_averaging": ("averaging gradients, which DDP does", "devices=1"),
    }
)
"""Feature behind each claim of training, evaluation, checkpoints and ranks, and the fix if it is unsupported."""

OF_SEVERAL_RANKS = ("sum_all_reduce", "broadcast", "all_gather", "barrier")
"""The claims that every strategy for several devices requires."""

ONE_PROCESS = "only CUDA runs several devices in one process"
"""Why ``strategy="dp"`` and ``torch.nn.DataParallel`` cannot run on a chip."""


def reject_unsupported(backend: Backend, *claims: str) -> None:
    """Raise :class:`UnsupportedError` for the first of these :data:`TRAINING_CLAIMS` that the chip does not support."""
    for name in claims:
        asked, instead = TRAINING_CLAIMS[name]
        reject_denied(backend, name, f"{backend.name!r} does not support {asked}", instead)


def reject_inference_mode(backend: str, _module: object, _inputs: object) -> None:
    """Raise :class:`UnsupportedError` if a model is called under an unsupported ``torch.inference_mode``."""
    if torch.is_inference_mode_enabled():
        reject_unsupported(get(backend), "inference_mode")


def reject_pinned(backend: Backend, loader: Any) -> None:
    """Raise :class:`UnsupportedError` for a ``loader`` that pins its batches for a chip without pinned memory."""
    pins = getattr(loader, "pin_memory", False)
    if isinstance(pins, int) and pins:  # a tensor, which may stand for a loader, has a method of this name
        what = f"{type(loader).__name__}(pin_memory=True): {backend.name!r} has no pinned memory"
        reject_denied(backend, "pinned_memory", what, "leave pin_memory= out")


def reject_module(backend: Backend, module: torch.nn.Module, device: torch.device, *, fits: bool = True) -> None:
    """Raise :class:`UnsupportedError` for what ``device`` lacks of ``module``; ``fits`` if it is trained."""
    reject_tensors(backend, module, device)
    reject_data_parallel(backend, module, device)
    if fits:
        reject_sparse_gradients(backend, module, device)


def reject_data_parallel(backend: Backend, module: torch.nn.Module, device: torch.device) -> None:
    """Raise :class:`UnsupportedError` if a part of ``module`` would spread its batch over devices, as the chip cannot.

    A ``torch.nn.DataParallel`` without devices passes: it was made before torch knew the chip, and spreads nothing.
    """
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.DataParallel) and part.device_ids and not _spreads(device):
            what = f"{name!r} is torch.nn.DataParallel" if name else "the module is torch.nn.DataParallel"
            raise UnsupportedError(
                f"{what}, which cannot run on {backend.name!r}: {ONE_PROCESS}. Fix: leave it out, and write"
                " strategy='ddp' for several devices",
                capability="strategy dp",
            )


def _spreads(device: torch.device) -> bool:
    """Return True if torch, or the vendor's software, can split a tensor among devices like ``device``."""
    try:
        scatter(torch.empty(1, device=device), [device])
    except (AttributeError, RuntimeError):
        return False
    return True


def reject_tensors(backend: Backend, module: torch.nn.Module, device: torch.device) -> None:
    """Raise :class:`UnsupportedError` for a complex, sparse or nested tensor of ``module`` that ``device`` lacks."""
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


def reject_to_add_sparse_gradients(adds_up: str, module: torch.nn.Module, device: torch.device | None) -> None:
    """Raise :class:`UnsupportedError` for a layer of ``module`` whose gradients ``adds_up`` cannot add up.

    With ``device``, that is a library, which may have a kernel for them.
    """
    for layer in _with_sparse_gradients(module):
        if device is None or not has_kernel("c10d::allreduce_", "Sparse", device.type):
            _reject("", "sparse", f"{layer}, but {adds_up!r} cannot add up sparse gradients", _DENSE)


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
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())  # torch's list of what DDP ignores
    for name, layer in module.named_modules():
        is_sparse = isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and layer.sparse
        is_trained = is_sparse and any(each.requires_grad for each in layer.parameters())  # its weight may be computed
        if is_trained and f"{name}.weight" not in ignored:
            yield f"{name!r} is {type(layer).__name__}(sparse=True)"


def _why_no_dtype(dtype: torch.dtype, device: torch.device) -> str | None:
    try:
        torch.empty(1, dtype=dtype, device=device)
    except (RuntimeError, TypeError) as error:
        return _first_line(error)
    return None


def _why_no_sparse(device: torch.device) -> str | None:
    """Return the chip's error for the calls of sparse gradients and SparseAdam; None if it has sparse tensors."""
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


class DtypeWarning(UserWarning):
    """A chip accepts tensors of this dtype, but computes them as another."""


class PlacementWarning(UserWarning):
    """A chip computes with tensors of two devices, and raises no error."""


_warned: set[str] = set()


def warn_of_module(backend: Backend, module: torch.nn.Module, precision: str = "32-true") -> None:
    """Warn, once for each process and reason, if the chip computes ``module`` in another dtype than its own.

    A chip without device checks gets a warning, too: a tensor that ``module`` leaves on the CPU would go unnoticed.
    Integers are not reported: a module counts with them. A chip that stores them as int32 rejects larger ones.
    """
    _warn(backend, ((f"the {kind} {name!r}", each) for kind, name, each in tensors_of(module)), ("float64",))
    for kind, capability, what in _IN_FLOAT32 if not precision.endswith("-mixed") else ():
        found = next((name for name, each in module.named_modules() if _is_in_float32(each, kind)), None)
        if found is not None:
            _warn_of(backend, capability, f"{found!r} is a {what} in float32")
    if precision.startswith("bf16"):
        _warn_of(backend, "bfloat16_range", f"precision={precision!r} was asked for")
    forgotten, cure = "a tensor may be left on the CPU", "move each tensor of a step to self.device"
    _warn_of(backend, "device_checks", forgotten, cure, PlacementWarning)


def warn_of_batch(backend: Backend, batch: Any) -> None:
    """Warn, as :func:`warn_of_module` does, about the tensors of a batch, including integers."""
    found = [each for each in values_in(batch) if isinstance(each, torch.Tensor)]
    tensors = ((f"a tensor of shape {tuple(each.shape)} in the batch", each) for each in found)
    _warn(backend, tensors, ("float64", "int64"))


_CURES = {
    "float64": "make it float32, or keep to values that fit",
    "int64": "class labels and token ids fit; a number beyond 2^31 does not",
}


_IN_FLOAT32 = (
    (_ConvNd, "float32_convolutions", "convolution"),
    (torch.nn.Linear, "float32_products", "linear layer"),
)
"""Kinds of torch's layers, the claim that each needs in float32, and its name."""

_UNSUPPORTED = {
    "float32_products": "does not compute it in float32",
    "float32_convolutions": "does not compute it in float32",
    "device_checks": "computes with it in silence, which can give wrong numbers",
    "bfloat16_range": "does not have bfloat16's range in matrix products",
}


def _warn(backend: Backend, tensors: Iterable[tuple[str, torch.Tensor]], dtypes: tuple[str, ...]) -> None:
    left = set(dtypes)  # one question to the chip for each dtype, not for each tensor
    for what, tensor in tensors:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype in left:
            left.remove(dtype)
            _warn_of(backend, dtype, f"{what} is {dtype}", _CURES[dtype])


def _warn_of(
    backend: Backend, capability: str, what: str, cure: str = "", category: type[UserWarning] = DtypeWarning
) -> None:
    if capability in _warned:
        return
    claim = backend.present_capabilities().claims()[capability]
    if not claim.denied:
        return
    _warned.add(capability)
    lack = _UNSUPPORTED.get(capability, f"has no {capability}")
    warnings.warn(
        f"{what}, and {backend.name!r} {lack}: {claim.reason}{cure and f'; {cure}'}",
        category,
        stacklevel=4,
    )


def _is_in_float32(module: torch.nn.Module, kind: type[torch.nn.Module]) -> bool:
    if not isinstance(module, kind):
        return False
    # Not its weight: reading that of a parametrized layer computes it, and a spectral norm goes a step on.
    return any(each.dtype == torch.float32 for each in module.parameters())
