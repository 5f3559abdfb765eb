"""One call on the CPU and on the chip, forward and backward, and how they differ, to the bit."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from tests.ops.entries import ROUNDED, Outcome
from torch import Tensor
from torch.utils import _pytree as pytree

Sample = TypeVar("Sample")

CHIP = os.environ.get("NORTHBRIDGE_SIMULATE", "cpu_sim")
DEVICE = f"{CHIP}:1" if CHIP == "cpu_sim" else CHIP
"""Not the first, where a process has several: what forgets its device makes tensors on the first."""

SEED = 7
RAW = re.compile("INTERNAL ASSERT|CPU Backend")
"""What torch says where a kernel is given a device that it was not written for."""

MOST_SAMPLES = 60
"""Of more, so many are taken, evenly."""


@dataclass(frozen=True)
class Called:
    """The outcome of a call: its results and its arguments' gradients, or its error."""

    results: Any = None
    gradients: Any = None
    error: str | None = None
    backward_error: str | None = None


def evenly(samples: Iterable[Sample]) -> list[tuple[int, Sample]]:
    """Return the samples with their positions, or as many of them as an entry may have."""
    every = list(enumerate(samples))
    return every[:: -(-len(every) // MOST_SAMPLES) or 1]


def compare_call(
    outcome: Outcome, what: str, function: Callable[..., Any], arguments: Any, *, backward: bool, values: bool = True
) -> Called:
    """Run ``function(*args, **kwargs)`` of ``arguments``, which are on the CPU, in both places, and add to ``outcome``.

    Returns what the CPU gave, so that the caller can make the next call of it. What has no tensor, generator or device
    among its arguments has no place on the chip. What the CPU refuses, the chip refuses too, and in words for users.
    """
    cpu = call_on("cpu", function, arguments, backward=backward)
    if not any(map(is_carried, pytree.tree_leaves(arguments))):
        return cpu
    chip = call_on(DEVICE, function, arguments, backward=backward)
    if cpu.error is not None:
        if chip.error is None:
            outcome.fail(f"{what}: computes what the CPU refuses: {cpu.error}")
        elif RAW.search(chip.error) and not RAW.search(cpu.error):
            outcome.fail(f"{what}: raises {chip.error}")
        return cpu
    outcome.calls += 1
    if chip.error is not None:
        outcome.fail(f"{what}: raises {chip.error}")
        return cpu
    said = difference(cpu.results, chip.results, DEVICE, values=values)
    if said is not None:
        outcome.fail(f"{what}: {said}")
    elif backward and cpu.backward_error is None and cpu.gradients is not None:
        outcome.backwards += 1
        if chip.backward_error is not None:
            outcome.fail(f"{what}, backward: raises {chip.backward_error}")
        else:
            said = difference(cpu.gradients, chip.gradients, DEVICE)
            if said is not None:
                outcome.fail(f"{what}, backward: {said}")
    return cpu


def call_on(device: str, function: Callable[..., Any], arguments: Any, *, backward: bool) -> Called:
    """Return what ``function`` gives with ``arguments``, carried to ``device``."""
    args, kwargs = Carrier(device).carry(arguments)
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            return Called(error=_told(error))
        if not backward:
            return Called(results)
        try:
            return Called(results, _gradients(results, (args, kwargs), device))
        except Exception as error:  # noqa: BLE001 - as above
            return Called(results, backward_error=_told(error))


def _gradients(results: Any, arguments: Any, device: str) -> Any:
    outputs = [x for x in pytree.tree_leaves(results) if isinstance(x, Tensor) and x.requires_grad]
    inputs = [x for x in pytree.tree_leaves(arguments) if isinstance(x, Tensor) and x.requires_grad and x.is_leaf]
    if not outputs or not inputs:
        return None
    seeds = torch.Generator().manual_seed(SEED)
    grads = [_like(x, seeds, device) for x in outputs]
    return torch.autograd.grad(outputs, inputs, grads, allow_unused=True)


def _like(output: Tensor, seeds: torch.Generator, device: str) -> Tensor:
    if output.is_nested or output.layout is not torch.strided:
        return torch.ones_like(output)
    return torch.randn(output.shape, generator=seeds, dtype=output.dtype).to(device)


def _told(error: Exception) -> str:
    first = str(error).strip().split("\nException raised from")[0]
    return f"{type(error).__name__}: {' / '.join(first.splitlines()[:4])[:600]}"


# --- Arguments in another place: the same values, strides, offsets and shared memory


def is_carried(value: Any) -> bool:
    """Return True if ``value`` is on a device, or names one."""
    return isinstance(value, (Tensor, torch.Generator)) or value in (torch.device("cpu"), "cpu")


class Carrier:
    """Copies arguments made on the CPU to ``device``; what shares memory there shares it here."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._storages: dict[tuple[int, torch.dtype], Tensor] = {}
        self._tensors: dict[int, Tensor] = {}
        self._kept: list[Any] = []  # so that no address is used twice

    def carry(self, tree: Any) -> Any:
        """Return ``tree`` with each tensor, generator and device of it exchanged."""
        return pytree.tree_map(self._carry, tree)

    def _carry(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, torch.Generator):
            return torch.Generator(self._device).manual_seed(value.initial_seed())
        return self._device if is_carried(value) else value

    def _tensor(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self._tensors:
            self._kept.append(tensor)
            copy = self._copy(tensor).requires_grad_(tensor.requires_grad)
            if isinstance(tensor, torch.nn.Parameter):
                copy = torch.nn.Parameter(copy, tensor.requires_grad)
            self._tensors[id(tensor)] = copy
        return self._tensors[id(tensor)]

    def _copy(self, tensor: Tensor) -> Tensor:
        plain = tensor.detach()
        if plain.layout is not torch.strided or plain.is_quantized or type(plain) is not Tensor:
            return plain.clone().to(self._device)
        if plain.is_conj():
            return self._copy(plain.conj()).conj()
        if plain.is_neg():
            negated: Tensor = torch.ops.aten._neg_view(self._copy(torch.ops.aten._neg_view(plain)))
            return negated
        storage = plain.untyped_storage()
        key = (storage.data_ptr() or id(storage), plain.dtype)
        if key not in self._storages:
            self._kept.append(storage)
            count = storage.nbytes() // plain.element_size()
            whole = torch.empty(0, dtype=plain.dtype).set_(storage, 0, (count,), (1,))
            self._storages[key] = whole.clone().to(self._device)
        return self._storages[key].as_strided(plain.shape, plain.stride(), plain.storage_offset())


# --- Results

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
