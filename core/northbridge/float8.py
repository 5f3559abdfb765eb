"""Engines that train linear layers in float8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError, UnsupportedError

if TYPE_CHECKING:
    import torch

FIX = "pip install 'northbridge[float8]'"
"""The command that installs the libraries of float8."""


class Float8Engine(ABC):
    """Software that computes the products of linear layers in float8, forward and backward.

    A chip offers its engines in :meth:`northbridge.Acceleration.float8_engines`.
    """

    emulates: bool = False
    """True if it rounds to float8, but multiplies in a wider dtype, because the chip has no product of float8."""

    @abstractmethod
    def read_recipe(self, recipe: Any) -> Any:
        """Return the engine's own form of a user's ``recipe``; its default for None.

        Called once for each run, before :meth:`convert`. Raises :class:`ArgumentsError` for an invalid recipe, and
        :class:`UnsupportedError` if the engine's software is missing or the chip cannot compute it.
        """

    @abstractmethod
    def convert(self, linear: torch.nn.Linear, recipe: Any) -> torch.nn.Module:
        """Return the float8 counterpart of ``linear``, which has the very parameters of ``linear``.

        Both dimensions of its weight are multiples of 16.
        """

    @abstractmethod
    def is_converted(self, module: torch.nn.Module) -> bool:
        """Return True if ``module`` is a float8 layer of this engine."""

    def autocast(self, recipe: Any) -> AbstractContextManager[Any]:  # noqa: ARG002 - for engines that have one
        """Return the context that a forward pass needs."""
        return nullcontext()


class TorchAO(Float8Engine):
    """torchao's float8 training: each tensor is scaled by its own largest value in each step.

    It needs ``torch._scaled_mm`` on the chip, unless it ``emulates``, and an e4m3 that ends at 448. A recipe is one of
    torchao's ``Float8LinearConfig``, or the name of one: "tensorwise", the default, "rowwise" or
    "rowwise_with_gw_hp".
    """

    def __init__(self, *, emulates: bool = False) -> None:
        self.emulates = emulates

    def read_recipe(self, recipe: Any) -> Any:
        from dataclasses import replace

        config = _import_torchao().config
        names = [each.value for each in config.Float8LinearRecipeName]
        if recipe is None or (isinstance(recipe, str) and recipe in names):
            read = config.Float8LinearConfig.from_recipe_name(recipe or names[0])
        elif isinstance(recipe, config.Float8LinearConfig):
            read = recipe
        else:
            raise ArgumentsError(
                f"recipe={recipe!r} is not a recipe of torchao. Fix: one of {', '.join(names)}, or a"
                " torchao.float8.Float8LinearConfig"
            )
        return replace(read, emulate=True) if self.emulates else read

    def convert(self, linear: torch.nn.Linear, recipe: Any) -> torch.nn.Module:
        converted: torch.nn.Module = _import_torchao().convert_to_float8_training(linear, config=recipe)
        converted.register_forward_pre_hook(_cast_as_autocast)
        return converted

    def is_converted(self, module: torch.nn.Module) -> bool:
        return isinstance(module, _import_torchao().float8_linear.Float8Linear)


def _import_torchao() -> Any:
    try:
        import torchao.float8
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torchao":
            raise
        raise UnsupportedError(
            f"float8 training with engine='torchao' needs torchao, which is not installed. Fix: {FIX}",
            capability="float8",
        ) from error
    return torchao.float8


def _cast_as_autocast(_: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cast the input to autocast's dtype, as torch.nn.Linear does: torchao asks CUDA's autocast alone."""
    import torch

    first, *rest = args
    kind = first.device.type
    if not torch.is_autocast_enabled(kind) or not first.is_floating_point():
        return args
    return first.to(torch.get_autocast_dtype(kind)), *rest


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
