"""Comparison of two runs: fingerprints of tensors, and the tolerance for a real chip against the CPU."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

import northbridge
from northbridge.discovery.current import loaded

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


TOLERANCES: Mapping[str, float] = MappingProxyType({"float32": 1e-3, "ten bits": 1e-2, "bfloat16": 3e-2})
"""The tolerance for a number of a real chip's run against the CPU's, by the dtype of the computation.

Trained in float64 instead, the suite's models end within 1e-6 of their float32 results. They end within 3e-4 if the
gradients are off by 1e-3 of their size, as with convolutions in TF32, and within 3e-2 in bfloat16. An omitted batch
moves some weight by at least 6e-3; gradients that are doubled or halved, by at least 2e-2.

"ten bits" is for a chip that denies ``float32_products``: where the CPU's products read ten bits of each factor, as a
test of Northbridge does, they end within 8e-3. There, an omitted batch may go unnoticed; the first step over several
ranks is compared more closely.
"""


def differences_from_cpu(
    backend: str, found: Any, expected: Any, dtype: str = "float32", simulated_within: float = 0.0
) -> list[str]:
    """Return the differences between ``found``, from a run of ``backend``, and ``expected``, from the CPU's run.

    A simulated chip must agree ``simulated_within``: to the bit by default, as the CPU computes. A real chip, and one
    that rounds otherwise, must agree within :data:`TOLERANCES`.
    """
    asked = northbridge.get(backend)
    capabilities = asked.present_capabilities() if loaded() is asked else asked.capabilities
    if dtype == "float32" and capabilities.float32_products.denied:
        dtype = "ten bits"
    return find_differences(found, expected, simulated_within if capabilities.exact else TOLERANCES[dtype])


def tolerance(backend: str, otherwise: float = 1e-5) -> float:
    """Return ``otherwise``, as sums over ranks have another order, or more for a chip that denies float32_products.

    A chip that reads ten bits of a factor turns a last digit into the tenth, from the second step of a training on.
    """
    coarse = northbridge.load(backend).present_capabilities().float32_products.denied
    return max(otherwise, TOLERANCES["float32"]) if coarse else otherwise


def find_differences(found: Any, expected: Any, within: float = 0.0, where: str = "it") -> list[str]:
    """Return a line for each place at which ``found``, of JSON values, differs from ``expected``.

    Floats, also those of tensors' fingerprints, may differ by ``within``: relative to the larger one if that exceeds 1,
    else absolute; with 0.0 every bit counts. Integers and texts must be equal.
    """
    if isinstance(found, dict) and isinstance(expected, dict):
        if found.keys() != expected.keys():
            return [f"{where}: {sorted(found)}, and not {sorted(expected)}"]
        pairs = [(found[name], expected[name], f"{where}, {name}") for name in expected]
    elif isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(found) != len(expected):
            return [f"{where}: {len(found)} of them, and not {len(expected)}"]
        both = zip(found, expected, strict=True)
        pairs = [(mine, other, f"{where}, {number}") for number, (mine, other) in enumerate(both)]
    elif isinstance(found, str) and isinstance(expected, str):
        return _compare_texts(found, expected, within, where)
    elif isinstance(found, float) and isinstance(expected, float):
        return [] if _is_near(found, expected, within) else [f"{where}: {found!r}, and not {expected!r}"]
    else:
        return [] if found == expected else [f"{where}: {found!r}, and not {expected!r}"]
    return [line for mine, other, place in pairs for line in find_differences(mine, other, within, place)]


def _compare_texts(found: str, expected: str, within: float, where: str) -> list[str]:
    mine, other = Fingerprint.parse(found), Fingerprint.parse(expected)
    if found == expected:
        return []
    if mine is None or other is None:
        return [f"{where}: {found!r}, and not {expected!r}"]
    if mine.form != other.form:
        return [f"{where}: tensors of other names, dtypes or shapes"]
    if within and all(_is_near(*pair, within) for pair in zip(mine.numbers, other.numbers, strict=True)):
        return []
    return [f"{where}: {_tell_worst(mine.numbers, other.numbers)}"]


def _tell_worst(found: Sequence[float], expected: Sequence[float]) -> str:
    distances = [abs(mine - other) for mine, other in zip(found, expected, strict=True)]
    if not any(distances):
        return "tensors with other bits than expected"
    worst = max(range(len(distances)), key=lambda number: distances[number] if distances[number] >= 0 else math.inf)
    return (
        f"tensors with other bits than expected; of {len(distances)} elements that were compared, {found[worst]!r} is"
        f" the furthest from what was expected, {expected[worst]!r}"
    )


def _is_near(found: float, expected: float, within: float) -> bool:
    is_same = math.isnan(found) and math.isnan(expected)
    return is_same or math.isclose(found, expected, rel_tol=within, abs_tol=within)
