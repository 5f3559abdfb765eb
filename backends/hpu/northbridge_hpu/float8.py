"""Engines that train in float8 on Gaudi: the vendor's Transformer Engine, and torchao."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import northbridge
from northbridge_hpu.device import HPUDevice

if TYPE_CHECKING:
    import torch


class TransformerEngine(northbridge.Float8Engine):
    """The vendor's Transformer Engine: tensors are scaled by the largest values of earlier steps.

    A recipe is the vendor's ``recipe.DelayedScaling``, a mapping of its arguments, in which ``fp8_format`` may be the
    name of a format, or None for the vendor's defaults.
    """

    def read_recipe(self, recipe: Any) -> Any:
        recipes = _import_engine().recipe
        if recipe is None or isinstance(recipe, recipes.DelayedScaling):
            return recipe
        if not isinstance(recipe, Mapping):
            raise northbridge.ArgumentsError(
                f"recipe={recipe!r} is not a recipe of the Transformer Engine. Fix: a recipe.DelayedScaling, or a dict"
                " of its arguments"
            )
        given = dict(recipe)
        form = given.get("fp8_format")
        if isinstance(form, str):
            formats = {"E5M2": recipes.Format.E5M2, "HYBRID": recipes.Format.HYBRID}
            if form not in formats:
                raise northbridge.ArgumentsError(f"recipe: fp8_format={form!r} is not one of {', '.join(formats)}")
            given["fp8_format"] = formats[form]
        try:
            return recipes.DelayedScaling(**given)
        except TypeError as error:
            raise northbridge.ArgumentsError(f"recipe={recipe!r} does not make a DelayedScaling: {error}") from error

    def convert(self, linear: torch.nn.Linear, recipe: Any) -> torch.nn.Module:
        made: torch.nn.Module = _import_engine().Linear(
            linear.in_features,
            linear.out_features,
            bias=linear.bias is not None,
            params_dtype=linear.weight.dtype,
            skip_weight_param_allocation=True,
        )
        made.weight = linear.weight
        if linear.bias is not None:
            made.bias = linear.bias
        for name in ("weight", "bias"):  # the order of torch.nn.Linear's, which an optimizer's checkpoint goes by
            if name in made._parameters:
                made._parameters[name] = made._parameters.pop(name)
        made.register_state_dict_post_hook(_keep_parameters_alone)  # type: ignore[no-untyped-call]
        made.register_load_state_dict_pre_hook(_keep_own_scales)  # type: ignore[no-untyped-call]
        return made

    def is_converted(self, module: torch.nn.Module) -> bool:
        return isinstance(module, _import_engine().Linear)

    def autocast(self, recipe: Any) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = _import_engine().fp8_autocast(enabled=True, fp8_recipe=recipe)
        return context


class TorchAO(northbridge.TorchAO):
    """torchao over the bridge's ``aten::_scaled_mm``, on a card whose e4m3 ends where torchao's does."""

    def read_recipe(self, recipe: Any) -> Any:
        import torch

        casts = [getattr(recipe, f"cast_config_{each}", None) for each in ("input", "weight", "grad_output")]
        kinds = {getattr(each, "target_dtype", None) for each in casts}
        if HPUDevice().generation == 2 and kinds != {torch.float8_e5m2}:
            raise northbridge.UnsupportedError(
                "engine='torchao' scales float8_e4m3fn to 448, where the e4m3 of Gaudi2 ends at 240. Fix:"
                " engine='transformer-engine', or a recipe of float8_e5m2 alone",
                capability="float8",
            )
        return super().read_recipe(recipe)


def _import_engine() -> Any:
    try:
        import habana_frameworks.torch.hpex.experimental.transformer_engine as engine
    except ModuleNotFoundError as error:
        raise northbridge.UnsupportedError(
            "engine='transformer-engine' needs the vendor's Transformer Engine, which cannot be imported:"
            f" {error}. Fix: the vendor's image, which has intel_transformer_engine",
            capability="float8",
        ) from error
    return engine


def _keep_parameters_alone(module: torch.nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Leave the scales out of a checkpoint, which then opens without the engine."""
    kept = {prefix + name for name, _ in module.named_parameters(recurse=False)}
    for key in [key for key in state if key.startswith(prefix) and key not in kept]:
        del state[key]


def _keep_own_scales(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Let a checkpoint without scales leave the scales as they are."""
    for name, buffer in module.named_buffers(recurse=False):
        state.setdefault(prefix + name, buffer)
    import torch

    if type(module).get_extra_state is not torch.nn.Module.get_extra_state:
        state.setdefault(f"{prefix}_extra_state", module.get_extra_state())
