"""Float8 that a script asks for by its module, as vendors' ``convert_modules(module)`` do, whichever Trainer it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError

if TYPE_CHECKING:
    import torch

_REQUEST = "_northbridge_float8"
"""The attribute of the module, with which it is copied and pickled: the plugin of its next run."""

_REPLACED = "_northbridge_replaced_precision"
"""The attribute of a strategy: the module whose plugin it has, and the precision that it had before."""


def request(module: torch.nn.Module, plugin: Any) -> None:
    """Let the next run of ``module`` use ``plugin``, of no namespace yet."""
    vars(_original(module))[_REQUEST] = plugin


def settle(module: torch.nn.Module, plugin: Any | None) -> None:
    """Forget the request of ``module``, which is set up with ``plugin``.

    Raises :class:`ArgumentsError` if that is another float8 than was asked for, or none.
    """
    module = _original(module)
    asked = vars(module).get(_REQUEST)
    if asked is None:
        return
    if not _is_same(plugin, asked):
        raise ArgumentsError(
            f"float8 was asked for {type(module).__name__}, and this run does not have it. Fix: give the plugin that"
            " was asked to the Fabric or Trainer: plugins=[…]"
        )
    del vars(module)[_REQUEST]


def use_requested(strategy: Any) -> None:
    """Give a Trainer's ``strategy`` the precision that was asked for its module, if any.

    The Trainer was made before, or without it. Raises :class:`ArgumentsError` if it has another precision than float8,
    "32-true" and "bf16-mixed", or if float8 was asked for a part of the module.
    """
    model = strategy.lightning_module
    if not isinstance(vars(model).get("_modules"), dict):  # a mock of a module
        return
    replaced_for, before = vars(strategy).get(_REPLACED, (model, None))
    if replaced_for is not model:
        strategy.precision_plugin = before
        del vars(strategy)[_REPLACED]
    mine = strategy.precision_plugin
    found = ((name, vars(each).get(_REQUEST)) for name, each in model.named_modules())
    name, asked = next(((name, plugin) for name, plugin in found if plugin is not None), ("", None))
    if asked is None:
        return
    if name:
        raise ArgumentsError(
            f"float8 was asked for {name!r}, a part of {type(model).__name__}. Fix: convert the whole module"
        )
    if not _is_same(mine, asked):
        kind, own = type(mine), strategy.siblings
        plugins = strategy.namespace.module("plugins")
        replaceable = kind is plugins.Precision or (kind is plugins.MixedPrecision and mine.precision == "bf16-mixed")
        if not replaceable and not isinstance(mine, (own.float8_precision, own.float8_inference)):
            raise ArgumentsError(
                f"float8 was asked for {type(model).__name__}, and its Trainer has {kind.__name__}. Fix: leave"
                " precision=, plugins= and strategy= out"
            )
        asked.__class__ = getattr(own, asked.field)
        asked.bind(strategy.backend)
        vars(strategy).setdefault(_REPLACED, (model, mine))
        strategy.precision_plugin = asked
    del vars(model)[_REQUEST]


def _original(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module that torch.compile has wrapped, or ``module`` itself."""
    found: torch.nn.Module = getattr(module, "_orig_mod", module)
    return found


def _is_same(plugin: Any, asked: Any) -> bool:
    return plugin is asked or getattr(plugin, "given", None) == asked.given
