"""What a chip offers to train linear layers in float8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from northbridge.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

FIX = "pip install torchao"
"""The command that installs the library of :class:`northbridge.TorchAO`; the extra ``float8`` brings it, too."""


class Float8Engine(ABC):
    """Software that computes the products of linear layers in float8, forward and backward.

    A chip offers its engines in :meth:`northbridge.Acceleration.float8_engines`.
    """

    emulates: bool = False
    """True if it rounds to float8, but multiplies in a wider dtype, because the chip has no product of float8."""

    multiple: int = 1
    """Both dimensions of a weight must be multiples of it. Other layers stay in the run's precision."""

    @abstractmethod
    def read_recipe(self, recipe: Any) -> Any:
        """Return the engine's own form of a user's ``recipe``; its default for None.

        Called once for each run, before :meth:`convert`. Raises :class:`ArgumentsError` for an invalid recipe, and
        :class:`UnsupportedError` if the engine's software is missing or the chip cannot compute it.
        """

    @abstractmethod
    def convert(self, linear: torch.nn.Linear, recipe: Any) -> torch.nn.Module:
        """Return the float8 counterpart of ``linear``, which has the very parameters of ``linear``."""

    @abstractmethod
    def is_converted(self, module: torch.nn.Module) -> bool:
        """Return True if ``module`` is a float8 layer of this engine."""

    def autocast(self, recipe: Any) -> AbstractContextManager[Any]:  # noqa: ARG002 - for engines that have one
        """Return the context that a forward pass needs."""
        return nullcontext()


def choose_engine(name: str, engines: Mapping[str, Float8Engine], asked: str | None) -> tuple[str, Float8Engine]:
    """Return the engine ``asked`` for of the backend ``name``, or its first, with the engine's name.

    Raises :class:`UnsupportedError` if ``engines`` is empty or has none of that name.
    """
    if asked is None and engines:
        asked = next(iter(engines))
    if asked is None or asked not in engines:
        offered = f"it offers {', '.join(map(repr, engines))}" if engines else "it offers no engine"
        instead = f"engine={next(iter(engines))!r}" if engines else "precision='bf16-mixed'"
        raise UnsupportedError(
            f"float8 training{f' with engine={asked!r}' if asked else ''} does not run on {name!r}: {offered}."
            f" Fix: {instead}",
            capability="float8",
        )
    return asked, engines[asked]
