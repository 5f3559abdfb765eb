"""The precision that trains linear layers in float8, on any chip that claims it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch

from northbridge.backend import Backend, reject_denied
from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.float8.engine import Float8Engine, choose_engine
from northbridge.lightning.namespaces import Classes, Namespace

Skip = Sequence[str] | Callable[[str, "torch.nn.Module"], bool]
"""Layers that stay as they are: names or patterns of names, or a function of a name and its layer."""


def reject_float8(backend: Backend, asked: str) -> None:
    """Raise :class:`UnsupportedError` if the chip denies float8; ``asked`` is the argument that asks for it."""
    reject_denied(backend, "float8", f"{asked}: {backend.name!r} has no float8", "precision='bf16-mixed'")


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

    field: ClassVar[str]
    """The field of :class:`Classes` with the class of a namespace."""

    precision: str = "transformer-engine"  # Lightning's word for float8

    def use_for(self, module: torch.nn.Module) -> None:
        """Let the next run of ``module`` use this precision, even if its Trainer was made before or without it.

        The run must be on one of Northbridge's chips. It raises :class:`ArgumentsError` if its Trainer has another
        precision than float8, "32-true" and "bf16-mixed".
        """
        vars(_original(module))[_REQUEST] = self


class Float8Precision(Float8Plugin):
    """Train linear layers in float8, and the rest under bfloat16 autocast. Parameters keep their dtype.

    A ``torch.nn.Linear`` becomes the engine's layer when the strategy sets the model up; it keeps its parameters, and
    their names in checkpoints, which open without float8. Layers whose dimensions the engine does not support (torchao:
    multiples of 16), layers whose weight is computed, subclasses of ``torch.nn.Linear`` and the layers in ``skip`` stay
    as they are; a log line names them. Float8 layers return bfloat16.

    ``Trainer(plugins=northbridge.Float8Precision())``: an object is of no namespace of Lightning until a Trainer or a
    Fabric gets it, which gives it that namespace's class.

    ``engine`` is one of the chip's (:meth:`northbridge.Acceleration.float8_engines`), by default its first. ``recipe``
    is the engine's. ``skip`` has names or patterns of layers, such as ``("head", "blocks.0.*")``, or is a function of
    a layer's name and the layer.

    A Trainer or a Fabric that gets it raises :class:`UnsupportedError` if the chip has no float8 or the engine's
    software is missing, and :class:`ArgumentsError` for an invalid recipe. So does the set-up of a model, if no layer
    remains, a layer is sharded already, or ``skip`` has a name that no module has.
    """

    field = "float8_precision"

    def __init__(self, engine: str | None = None, recipe: Any = None, skip: Skip = ()) -> None:
        self.engine: str | None = engine
        self.recipe: Any = recipe
        self.skip: Skip = check_skip(skip)
        self.backend: Backend | None = None
        self._read: Any = None

    @property
    def given(self) -> tuple[Any, ...]:
        """The arguments. Two objects with the same arguments compute the same."""
        return self.engine, self.recipe, self.skip

    def bind(self, backend: Backend) -> None:
        """Set the chip of the run, and read the recipe; raises the errors of the class."""
        reject_float8(backend, f"{type(self).__name__}()")
        _, engine = self._choose(backend)
        self._read = engine.read_recipe(self.recipe)
        self.backend = backend

    def convert_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Replace the linear layers of ``module`` by float8 layers with the same parameters; return the module.

        A strategy calls it. Call it in ``configure_model()`` before you shard the model there.
        """
        settle(module, self)
        name, engine = self._choose(self._chip)
        before = [each for each in module.modules() if engine.is_converted(each)]
        converted, kept = convert_linears(module, engine, self._read, self.skip)
        if not any(engine.is_converted(each) for each in converted.modules()):
            found = f"it has {_list(kept)}" if kept else "it has no torch.nn.Linear"
            sizes = f"multiples of {engine.multiple} for the features of its layers, or " if engine.multiple > 1 else ""
            raise UnsupportedError(
                f"no layer of {type(module).__name__} can be trained in float8: {found}. Fix:"
                f" {sizes}precision='bf16-mixed'",
                capability="float8",
            )
        if not before:
            self._log(name, engine, converted, kept)
        return converted

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        """Compute float8 layers by the engine, and the rest under bfloat16 autocast."""
        _, engine = self._choose(self._chip)
        with torch.autocast(self._chip.device.type, dtype=torch.bfloat16), engine.autocast(self._read):
            yield

    @property
    def _chip(self) -> Backend:
        if self.backend is None:
            raise UnsupportedError(
                f"{type(self).__name__} has no chip: it runs on Northbridge's chips that claim float8. Fix:"
                " accelerator= one of them",
                capability="float8",
            )
        return self.backend

    def _choose(self, backend: Backend) -> tuple[str, Float8Engine]:
        return choose_engine(backend.name, backend.acceleration.float8_engines(), self.engine)

    def _log(self, name: str, engine: Float8Engine, module: torch.nn.Module, kept: dict[str, str]) -> None:
        rank_zero: Any = self.namespace.fabric_module("utilities.rank_zero")
        count = sum(engine.is_converted(each) for each in module.modules())
        layers = "linear layers" if count != 1 else "linear layer"
        rank_zero.rank_zero_info(
            f"Training {count} {layers} in float8 with {name}" + (f"; not in float8: {_list(kept)}" if kept else "")
        )
        if engine.emulates or getattr(self._read, "emulate", False):
            rank_zero.rank_zero_warn(
                f"{name} emulates float8 on {self._chip.name!r}: it rounds to float8, but multiplies in a wider dtype,"
                " which saves nothing"
            )


def check_skip(skip: Any) -> Skip:
    """Return ``skip``; raise :class:`ArgumentsError` if it is neither names nor a function."""
    if callable(skip) or (
        isinstance(skip, (list, tuple, set, frozenset)) and all(isinstance(each, str) for each in skip)
    ):
        checked: Any = skip if callable(skip) else tuple(skip)
        return checked  # type: ignore[no-any-return]
    raise ArgumentsError(
        f"Float8Precision(skip={skip!r}) is neither a list of names nor a function of a name and a layer. Fix:"
        f" skip=[{skip!r}]"
    )


def convert_linears(
    module: torch.nn.Module, engine: Float8Engine, recipe: Any, skip: Skip
) -> tuple[torch.nn.Module, dict[str, str]]:
    """Replace each ``torch.nn.Linear`` in ``module`` that can be computed in float8.

    Return the module, or the layer in its place if it is one itself, and the reason for each layer that stays. Raises
    :class:`UnsupportedError` for a sharded layer: FSDP2 and tensor parallel would go on with the layer that it was.
    """
    places: dict[torch.nn.Linear, list[str]] = {}
    for name, each in module.named_modules(remove_duplicate=False):
        if isinstance(each, torch.nn.Linear) and not engine.is_converted(each):
            places.setdefault(each, []).append(name)
    _reject_unknown(skip, [name for name, _ in module.named_modules(remove_duplicate=False)])
    kept: dict[str, str] = {}
    for linear, names in places.items():
        reason = _reason_against(names[0], linear, skip, engine.multiple)
        if reason:
            kept[names[0]] = reason
            continue
        if hasattr(linear.weight, "device_mesh"):  # a DTensor
            raise UnsupportedError(
                f"the layer {names[0]!r} is sharded already, so it cannot be trained in float8. Fix: in"
                " configure_model(), before sharding: self.trainer.precision_plugin.convert_module(self)",
                capability="float8",
            )
        made = _with_hooks_of(linear, engine.convert(linear, recipe))
        if linear is module:
            return made, kept
        for name in names:
            parent, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(parent), attribute, made)
    return module, kept


def _reject_unknown(skip: Skip, names: list[str]) -> None:
    for pattern in () if callable(skip) else skip:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = difflib.get_close_matches(pattern, names, n=1)
            hint = f". Did you mean {near[0]!r}?" if near else f"; it has {', '.join(filter(None, names))}"
            raise ArgumentsError(f"Float8Precision(skip=…): the model has no module {pattern!r}{hint}")


def _reason_against(name: str, linear: torch.nn.Linear, skip: Skip, multiple: int) -> str:
    """Return why ``linear`` is not computed in float8; empty if it is."""
    if skip(name, linear) if callable(skip) else any(_covers(pattern, name) for pattern in skip):
        return "skip="
    if "weight" not in linear._parameters:  # by weight_norm, spectral_norm or another parametrization
        return "its weight is computed from others"
    if type(linear) is not torch.nn.Linear and type(linear).__name__ != "FSDPLinear":  # torch's, for a sharded one
        return f"a {type(linear).__name__}, not torch.nn.Linear"
    if linear.in_features % multiple or linear.out_features % multiple:
        return f"{linear.in_features} x {linear.out_features}, not multiples of {multiple}"
    return ""


def _covers(pattern: str, name: str) -> bool:
    """Return True if ``pattern`` is that of a layer, or of a module that contains it."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))


def _with_hooks_of(linear: torch.nn.Module, made: torch.nn.Module) -> torch.nn.Module:
    made.train(linear.training)
    for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
        getattr(made, hooks).update(getattr(linear, hooks))
    return made


def _list(kept: dict[str, str]) -> str:
    return ", ".join(f"{name or 'the model itself'} ({reason})" for name, reason in kept.items())


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
