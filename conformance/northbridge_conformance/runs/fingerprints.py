"""Fingerprints of tensors, to compare them with those of another run, to the bit or within a tolerance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import torch

MOST_NUMBERS = 16
"""The number of elements of each tensor that are kept as numbers, spread evenly over it."""


@dataclass(frozen=True)
class Fingerprint:
    """A fingerprint of tensors. Two are equal if the tensors are bit-equal."""

    form: str
    """A hash of names, dtypes and shapes."""

    bits: str
    """A hash of every bit."""

    numbers: tuple[float, ...]
    """Some of the elements of each tensor."""

    def __str__(self) -> str:
        """Return the fingerprint on one line, which :meth:`parse` reads."""
        return f"{self.form} {self.bits} {json.dumps(self.numbers)}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint | None:
        """Return the fingerprint in ``text``, or None if ``text`` has another form."""
        form, _, rest = text.partition(" ")
        bits, _, numbers = rest.partition(" ")
        if len(form) != len(bits) or len(form) != hashlib.sha256().digest_size * 2 or not numbers.startswith("["):
            return None
        return cls(form, bits, tuple(json.loads(numbers)))


def fingerprint(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the line of the :class:`Fingerprint` of ``tensors``, such as a module's ``state_dict()``."""
    form, bits = hashlib.sha256(), hashlib.sha256()
    numbers: list[float] = []
    for name, tensor in tensors.items():
        form.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().view(-1)
        bits.update(flat.view(torch.uint8).numpy().tobytes())
        step = max(1, -(-len(flat) // MOST_NUMBERS))
        numbers += flat[::step].double().tolist()
    return str(Fingerprint(form.hexdigest(), bits.hexdigest(), tuple(numbers)))


def address_of(tensor: torch.Tensor) -> int:
    """Return the address of the memory that ``tensor`` shares with its views; 0 if its storage has none.

    A lazy device computes later, and has no memory to point to. Northbridge asks no storage for more than this.
    """
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return 0
