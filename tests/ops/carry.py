"""Arguments in another place: the same values, strides, offsets and shared memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree


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
