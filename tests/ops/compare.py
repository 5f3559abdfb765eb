"""Comparison of the chip's results with the CPU's, to the bit."""

from __future__ import annotations

from typing import Any

import torch
from tests.ops.entries import ROUNDED
from torch import Tensor
from torch.utils import _pytree as pytree

_COMPRESSED = (torch.sparse_csr, torch.sparse_bsr, torch.sparse_csc, torch.sparse_bsc)


def difference(cpu: Any, chip: Any, device: str, *, values: bool = True) -> str | None:
    """Return in words how ``chip`` differs from ``cpu``, or None where it does not.

    Numbers are compared by their bits, save that one NaN is as good as another. ``values`` is False where nobody
    says what the values are, as with fresh memory: shapes, dtypes and strides are compared then.
    """
    expected, shape = pytree.tree_flatten(cpu)
    found, found_shape = pytree.tree_flatten(chip)
    if shape != found_shape:
        return f"gives {found_shape} and not {shape}"
    for one, other in zip(expected, found, strict=True):
        said = _of_leaves(one, other, device, values)
        if said is not None:
            return said
    return None


def _of_leaves(cpu: Any, chip: Any, device: str, values: bool) -> str | None:
    if isinstance(cpu, Tensor) != isinstance(chip, Tensor):
        return f"gives {type(chip).__name__} and not {type(cpu).__name__}"
    if not isinstance(cpu, Tensor):
        if isinstance(cpu, (torch.device, torch.Generator)) or (isinstance(cpu, float) and cpu != cpu):
            return None
        return None if not values or cpu == chip else f"gives {chip!r} and not {cpu!r}"
    if chip.device.type != torch.device(device).type:
        return f"gives a tensor on {chip.device}"
    for what in ("is_nested", "dtype", "layout", "shape", "requires_grad", "is_quantized"):
        if what == "shape" and cpu.is_nested:
            continue  # it has none
        if getattr(cpu, what) != getattr(chip, what):
            return f"gives {what} {getattr(chip, what)} and not {getattr(cpu, what)}"
    if cpu.is_nested:  # the chip holds such a tensor, and no more
        chip = chip.cpu()
    return _of_tensors(cpu.detach(), chip.detach(), values)


def _of_tensors(cpu: Tensor, chip: Tensor, values: bool) -> str | None:
    if cpu.is_nested:
        return _of_parts(list(cpu.unbind()), list(chip.unbind()), values)
    if cpu.layout is torch.sparse_coo:
        if cpu.is_coalesced() != chip.is_coalesced():
            return f"gives is_coalesced {chip.is_coalesced()}"
        return _of_parts([cpu._indices(), cpu._values()], [chip._indices(), chip._values()], values)
    if cpu.layout in _COMPRESSED:
        return _of_parts(_compressed_parts(cpu), _compressed_parts(chip), values)
    if cpu.layout is torch.strided:
        for what in ("stride", "storage_offset", "is_conj", "is_neg"):
            if getattr(cpu, what)() != getattr(chip, what)():
                return f"gives {what} {getattr(chip, what)()} and not {getattr(cpu, what)()}"
        if cpu.is_neg():  # of any dtype, though only numbers can be negated
            cpu, chip = map(torch.ops.aten._neg_view, (cpu, chip))
    return _of_values(cpu, chip.cpu()) if values else None


def _compressed_parts(tensor: Tensor) -> list[Tensor]:
    by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    if by_row:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def _of_parts(cpu: list[Tensor], chip: list[Tensor], values: bool) -> str | None:
    for one, other in zip(cpu, chip, strict=True):
        if one.shape != other.shape:
            return f"gives a part of shape {other.shape} and not {one.shape}"
        said = _of_tensors(one, other, values)
        if said is not None:
            return said
    return None


def _of_values(cpu: Tensor, chip: Tensor) -> str | None:
    if cpu.layout is not torch.strided:
        cpu, chip = cpu.to_dense(), chip.to_dense()
    if cpu.is_quantized:
        cpu, chip = cpu.int_repr(), chip.int_repr()
    if cpu.is_complex():
        cpu, chip = (torch.view_as_real(x.resolve_conj()) for x in (cpu, chip))
    cpu, chip = (x.resolve_neg().clone(memory_format=torch.contiguous_format) for x in (cpu, chip))
    if cpu.numel() == 0:
        return None
    differs = (_bits(cpu) != _bits(chip)).view(*cpu.shape, -1).any(-1)
    if cpu.is_floating_point():
        differs &= ~(cpu.isnan() & chip.isnan())
    count = int(differs.sum())
    if count == 0:
        return None
    where = int(differs.flatten().nonzero()[0])
    one, other = cpu.flatten()[where].item(), chip.flatten()[where].item()
    said = f"gives {other!r} and not {one!r} at element {where} ({count} of {differs.numel()} differ)"
    return said + ROUNDED if _is_rounding(cpu, chip) else said


def _is_rounding(cpu: Tensor, chip: Tensor) -> bool:
    """Return True if they differ by at most two units in the last place, and are zero in the same places."""
    if not cpu.is_floating_point():
        return False
    one, other = cpu.double(), chip.double()
    return torch.equal(one == 0, other == 0) and torch.allclose(one, other, rtol=2 * torch.finfo(cpu.dtype).eps, atol=0)


def _bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(*tensor.shape, 1).view(torch.uint8)
