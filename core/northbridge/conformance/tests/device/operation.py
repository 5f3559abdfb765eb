"""One operation of torch, the arguments that it is tried with, and how near the CPU's its results have to be."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tolerance:
    """How far a real chip's numbers may be from the CPU's: ``absolute`` + ``relative`` × the size of the CPU's number.

    A simulated chip computes with the CPU's kernels, and is given none.
    """

    relative: float
    absolute: float


EXACT = Tolerance(0.0, 0.0)
"""Moves and chooses numbers, or counts."""

ROUNDED = Tolerance(2e-5, 2e-6)
"""A few roundings of float32 from the exact result: chips approximate functions by other polynomials than the CPU."""

SUMMED = Tolerance(1e-4, 1e-5)
"""Sums of products, which every chip adds up in an order of its own."""

SOLVED = Tolerance(1e-3, 1e-4)
"""Factorisations, whose errors grow with the condition of the matrix."""

CONVOLVED = Tolerance(5e-3, 5e-3)
"""Convolutions. Ten bits of mantissa are allowed: chips round the factors of float32 products, as torch has CUDA do
unless it is told otherwise. What a chip says of it is the claim ``float32_convolutions``.
"""


@dataclass(frozen=True)
class Drawn:
    """An argument that is a tensor, drawn on the CPU so that every chip is given the same numbers."""

    draw: Callable[[torch.Generator], Tensor]
    constant: bool = False
    """Nobody takes a gradient by it."""


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Drawn:
    """Draw numbers of float32 between ``low`` and ``high``."""
    return Drawn(lambda generator: torch.rand(shape, generator=generator) * (high - low) + low)


def whole(*shape: int, low: int = 0, high: int = 9) -> Drawn:
    """Draw numbers of int64 from ``low`` to below ``high``."""
    return Drawn(lambda generator: torch.randint(low, high, shape, generator=generator))


def flags(*shape: int) -> Drawn:
    """Draw truth values."""
    return Drawn(lambda generator: torch.rand(shape, generator=generator) > 0.5)


def shuffled(size: int) -> Drawn:
    """Draw an order of the indices below ``size``."""
    return Drawn(lambda generator: torch.randperm(size, generator=generator))


def definite(size: int) -> Drawn:
    """Draw a symmetric matrix, far from singular, with positive eigenvalues."""

    def draw(generator: torch.Generator) -> Tensor:
        root = torch.rand(size, size, generator=generator)
        return root @ root.T + size * torch.eye(size)

    return Drawn(draw)


def given(values: Any) -> Drawn:
    """Take ``values`` as they are."""
    return Drawn(lambda _generator: torch.tensor(values))


def fixed(values: Any) -> Drawn:
    """Take ``values`` as they are, by which nobody takes a gradient: weights of classes, and masks."""
    return Drawn(lambda _generator: torch.tensor(values), constant=True)


def signs(size: int) -> Drawn:
    """Draw a target of 1 and -1, by which losses are not differentiated."""
    return Drawn(lambda generator: torch.randint(0, 2, (size,), generator=generator) * 2.0 - 1, constant=True)


Form = Callable[[Tensor], Tensor]
"""Lays a tensor out in memory."""


def as_it_is(given: Tensor) -> Tensor:
    """Return ``given``."""
    return given


def turned(given: Tensor) -> Tensor:
    """Return the numbers of ``given`` so that those of its first dimension lie one after another."""
    return given if given.dim() < 2 else given.transpose(0, -1).contiguous().transpose(0, -1)


@dataclass(frozen=True)
class Operation:
    """An operation by the name that torch's own database of operators has for it."""

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    within: Tolerance = ROUNDED
    differentiable: bool = True
    what: str = ""
    """What is asked of the operation beside the plain call."""

    call: Callable[..., Any] | None = None
    """What is called where no function of torch says it by itself."""

    curved: bool = False
    """Whether a penalty on gradients, or a model that learns to learn, takes the gradient of its gradient."""

    @property
    def function(self) -> Callable[..., Any]:
        """What is called: of torch, or where torch has no function of the name, the tensor's method."""
        if self.call is not None:
            return self.call
        found: Any = torch
        for part in self.name.split("."):
            found = getattr(found, part, None)
        return found if callable(found) else _read_method(self.name)

    def draw(self, device: torch.device | str, form: Form = as_it_is) -> tuple[list[Any], dict[str, Any], list[Tensor]]:
        """Return arguments and keywords with tensors on ``device``, and those of them that gradients are taken of.

        ``form`` lays out in memory what is drawn.

        The numbers depend on what the operation is called alone.
        """
        generator = torch.Generator().manual_seed(zlib.crc32(str(self).encode()))
        leaves: list[Tensor] = []

        def place(value: Any) -> Any:
            if isinstance(value, Drawn):
                tensor = form(value.draw(generator).to(device))
                if self.differentiable and tensor.is_floating_point() and not value.constant:
                    leaves.append(tensor.requires_grad_())
                return tensor
            return type(value)(map(place, value)) if isinstance(value, (list, tuple)) else value

        arguments = [place(value) for value in self.arguments]
        return arguments, {name: place(value) for name, value in self.keywords.items()}, leaves

    def __str__(self) -> str:
        return f"{self.name}, {self.what}" if self.what else self.name


def _read_method(name: str) -> Callable[..., Any]:
    attribute = getattr(Tensor, name)
    return attribute if callable(attribute) else functools.partial(_read_attribute, name)


def _read_attribute(name: str, tensor: Tensor) -> Any:
    return getattr(tensor, name)
