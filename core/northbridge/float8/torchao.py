"""torchao's float8 training."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.float8.engine import FIX, Float8Engine

if TYPE_CHECKING:
    import torch


class TorchAO(Float8Engine):
    """torchao's float8 training: each tensor is scaled by its own largest value in each step.

    It needs ``torch._scaled_mm`` on the chip, unless it ``emulates``, and an e4m3 that ends at 448. A recipe is one of
    torchao's ``Float8LinearConfig``, or the name of one: "tensorwise", the default, "rowwise" or
    "rowwise_with_gw_hp".
    """

    multiple = 16  # torchao's own rule, for in_features and out_features

    def __init__(self, *, emulates: bool = False) -> None:
        self.emulates = emulates

    def read_recipe(self, recipe: Any) -> Any:
        config = _import_torchao().config
        names = [each.value for each in config.Float8LinearRecipeName]
        if recipe is None or (isinstance(recipe, str) and recipe in names):
            read: Any = config.Float8LinearConfig.from_recipe_name(recipe or names[0])
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
        from northbridge.float8.torchao_linear import _AutocastLinear

        converted.__class__ = _AutocastLinear
        return converted

    def is_converted(self, module: torch.nn.Module) -> bool:
        return isinstance(module, _import_torchao().float8_linear.Float8Linear)


def _import_torchao() -> Any:
    try:
        return import_module("torchao.float8")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torchao":
            raise
        raise UnsupportedError(
            f"float8 training with engine='torchao' needs torchao, which is not installed. Fix: {FIX}",
            capability="float8",
        ) from error
