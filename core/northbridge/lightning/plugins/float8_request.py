"""Requests for float8 that a module brings to its next run, as after a vendor's ``convert_modules(module)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from northbridge.errors import ArgumentsError
from northbridge.lightning.namespaces import Classes, Namespace

if TYPE_CHECKING:
    import torch

_REQUEST = "_northbridge_float8"
"""The module's attribute with the plugin of its next run. It is copied and pickled with the module."""

_REPLACED = "_northbridge_replaced_precision"
"""The attribute of a strategy: the module whose plugin it has, and the precision that it had before."""


class Float8Plugin:
    """What the precisions of training and of inference in float8 share: a module may request them for its next run."""

    # Not of _NamespaceMixin, an ABC: Python would not let an object of Lightning's Precision take the combined class.
    namespace: ClassVar[Namespace]
    stock_class: ClassVar[Any]
    siblings: ClassVar[Classes]

    precision: str = "transformer-engine"  # Lightning's word for float8

    def use_for(self, module: torch.nn.Module) -> None:
        """Let the next run of ``module`` use this precision, even if its Trainer was made before or without it.

        The run must be on one of Northbridge's chips. It raises :class:`ArgumentsError` if its Trainer has another
        precision than float8, "32-true" and "bf16-mixed".
        """
        vars(_original(module))[_REQUEST] = self


def settle(module: torch.nn.Module, plugin: Any | None) -> None:
    """Forget the request of ``module``, which is set up with ``plugin``.

    Raises :class:`ArgumentsError` if the run has another plugin than the requested one, or none.
    """
    module = _original(module)
    asked = vars(module).get(_REQUEST)
    if asked is None:
        return
    if not _is_same(plugin, asked):
        raise ArgumentsError(
            f"{type(module).__name__} is to run in float8, and this run does not have its plugin. Fix: give it to the"
            " Fabric or Trainer: plugins=[…]"
        )
    del vars(module)[_REQUEST]


def use_requested(strategy: Any) -> None:
    """Give a Trainer's ``strategy`` the precision that its module requests, if any.

    The Trainer was made before the request, or without that precision. Raises :class:`ArgumentsError` if it has another
    one than float8, "32-true" and "bf16-mixed", or if a part of the module has the request.
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
            f"{name!r} is to run in float8, and is a part of {type(model).__name__}. Fix: convert the whole module"
        )
    if not _is_same(mine, asked):
        kind, own = type(mine), strategy.siblings
        plugins = strategy.namespace.module("plugins")
        replaceable = kind is plugins.Precision or (kind is plugins.MixedPrecision and mine.precision == "bf16-mixed")
        if not replaceable and not isinstance(mine, (own.float8_precision, own.float8_inference)):
            raise ArgumentsError(
                f"{type(model).__name__} is to run in float8, and its Trainer has {kind.__name__}. Fix: leave"
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
