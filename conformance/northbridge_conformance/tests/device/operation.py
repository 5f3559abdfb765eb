"""A torch operation, its test arguments, and the tolerance of its results against the CPU's."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of a real chip against the CPU: ``absolute`` + ``relative`` × the size of the CPU's number.

    A simulated chip that computes with the CPU's kernels has no tolerance.
    """

    relative: float
    absolute: float


EXACT = Tolerance(0.0, 0.0)
"""The tolerance of operations that move, select or count numbers."""

ROUNDED = Tolerance(2e-5, 2e-6)
"""The tolerance of a few float32 roundings: chips approximate functions by other polynomials than the CPU."""

SUMMED = Tolerance(1e-4, 1e-5)
"""The tolerance of sums of products, which every chip adds up in its own order."""

SOLVED = Tolerance(1e-3, 1e-4)
"""The tolerance of factorisations, whose errors grow with the condition of the matrix."""

CONVOLVED = Tolerance(5e-3, 5e-3)
"""The tolerance of convolutions. Ten bits of mantissa suffice: chips round the factors of float32 products, as torch
has CUDA do by default. The claim ``float32_convolutions`` is about this.
"""


@dataclass(frozen=True)
class Drawn:
    """A tensor argument, drawn on the CPU so that every chip gets the same numbers."""

    draw: Callable[[torch.Generator], Tensor]
    constant: bool = False
    """True if no gradient is taken with respect to it."""


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Drawn:
    """Draw float32 numbers between ``low`` and ``high``."""
    return Drawn(lambda generator: torch.rand(shape, generator=generator) * (high - low) + low)


def distinct(*shape: int) -> Drawn:
    """Draw float32 numbers between -2 and 2 of which no two are equal, so that their order is one."""
    count = math.prod(shape)
    return Drawn(lambda generator: (torch.randperm(count, generator=generator) * (4 / count) - 2).view(shape))


def whole(*shape: int, low: int = 0, high: int = 9) -> Drawn:
    """Draw int64 numbers from ``low`` to below ``high``."""
    return Drawn(lambda generator: torch.randint(low, high, shape, generator=generator))


def flags(*shape: int) -> Drawn:
    """Draw booleans."""
    return Drawn(lambda generator: torch.rand(shape, generator=generator) > 0.5)


def shuffled(size: int) -> Drawn:
    """Draw a permutation of the indices below ``size``."""
    return Drawn(lambda generator: torch.randperm(size, generator=generator))


def definite(size: int) -> Drawn:
    """Draw a symmetric matrix, far from singular, with positive eigenvalues."""

    def draw(generator: torch.Generator) -> Tensor:
        root = torch.rand(size, size, generator=generator)
        return root @ root.T + size * torch.eye(size)

    return Drawn(draw)


def given(values: Any) -> Drawn:
    """Use ``values`` as they are."""
    return Drawn(lambda _generator: torch.tensor(values))


def fixed(values: Any) -> Drawn:
    """Use ``values`` as they are, without a gradient: class weights and masks."""
    return Drawn(lambda _generator: torch.tensor(values), constant=True)


def signs(size: int) -> Drawn:
    """Draw a target of 1 and -1, without a gradient."""
    return Drawn(lambda generator: torch.randint(0, 2, (size,), generator=generator) * 2.0 - 1, constant=True)


Form = Callable[[Tensor], Tensor]
"""The type of a function that lays out a tensor in memory."""


def as_it_is(given: Tensor) -> Tensor:
    """Return ``given`` unchanged, as the default layout."""
    return given


def turned(given: Tensor) -> Tensor:
    """Return ``given`` with the elements of its first dimension contiguous."""
    return given if given.dim() < 2 else given.transpose(0, -1).contiguous().transpose(0, -1)


def keep_ten_bits(given: Tensor) -> Tensor:
    """Return ``given`` as a chip without ``float32_products`` reads factors, such as one with TF32."""
    if given.dtype != torch.float32:
        return given
    return given.contiguous().view(torch.int32).bitwise_and(-(1 << 13)).view(torch.float32)


@dataclass(frozen=True)
class Operation:
    """An operation, by its name in torch's own database of operators."""

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    within: Tolerance = ROUNDED
    differentiable: bool = True
    what: str = ""
    """The tested option; empty for the plain call."""

    call: Callable[..., Any] | None = None
    """The function to call if torch has no single function for the operation."""

    curved: bool = False
    """True if users need its second derivative, for gradient penalties and meta-learning."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function to call: torch's, or the tensor's method if torch has no function of that name."""
        if self.call is not None:
            return self.call
        found: Any = torch
        for part in self.name.split("."):
            found = getattr(found, part, None)
        return found if callable(found) else _read_method(self.name)

    @property
    def gradients_within(self) -> Tolerance:
        """The tolerance of its gradients: what copies a number to several places adds up their gradients."""
        return SUMMED if self.within == EXACT else self.within

    def draw(self, device: torch.device | str, form: Form = as_it_is) -> tuple[list[Any], dict[str, Any], list[Tensor]]:
        """Return arguments and keywords with tensors on ``device``, and the tensors that gradients are taken of.

        ``form`` lays out the drawn tensors in memory.

        The numbers depend only on the operation's name and option.
        """
        generator = torch.Generator().manual_seed(zlib.crc32(str(self).encode()))
        leaves: list[Tensor] = []

        def place(drawn: Drawn) -> Tensor:
            tensor = form(drawn.draw(generator).to(device))
            if self.differentiable and tensor.is_floating_point() and not drawn.constant:
                leaves.append(tensor.requires_grad_())
            return tensor

        arguments, keywords = tree_map_only(Drawn, place, ([*self.arguments], {**self.keywords}))
        return arguments, keywords, leaves

    def __str__(self) -> str:
        return f"{self.name}, {self.what}" if self.what else self.name


def _read_method(name: str) -> Callable[..., Any]:
    attribute = getattr(Tensor, name)
    return attribute if callable(attribute) else functools.partial(_read_attribute, name)


def _read_attribute(name: str, tensor: Tensor) -> Any:
    return getattr(tensor, name)
