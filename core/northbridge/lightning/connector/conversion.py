"""Conversion of other namespaces' objects, and of vendors' class names, for a Trainer or Fabric."""

from __future__ import annotations

from typing import Any

from northbridge.errors import ArgumentsError, NamespaceError, UnsupportedError
from northbridge.lightning.accelerators.accelerator import is_our_class, is_ours, load_with_hardware
from northbridge.lightning.classes import classes
from northbridge.lightning.connector.registry import Alias
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.plugins.float8 import Float8Plugin
from northbridge.lightning.vendor_names.names import (
    AcceleratorName,
    VendorName,
    is_open,
    is_vendor_class,
)
from northbridge.lightning.vendor_names.plugins import CheckpointIOName, PrecisionName
from northbridge.lightning.vendor_names.strategies import PRECISION_OF_STRATEGY, StrategyName


def convert_arguments(namespace: Namespace, arguments: dict[str, Any]) -> None:
    """Convert our objects of other namespaces, and vendors' class names, to those of ``namespace``, in place.

    If the run is ours, an object of another Lightning namespace is an error that names the right import. Without it,
    ``isinstance`` fails in Lightning, and its message does not say why.
    """
    _convert_names(namespace, arguments)
    arguments["accelerator"] = _convert(namespace, arguments["accelerator"])
    arguments["strategy"] = _convert(namespace, arguments["strategy"])
    plugins = arguments.get("plugins")
    if isinstance(plugins, (list, tuple)):
        arguments["plugins"] = [_convert(namespace, plugin) for plugin in plugins]
    elif plugins is not None:
        arguments["plugins"] = _convert(namespace, plugins)
    if is_ours(arguments["accelerator"]) or is_our_class(namespace.owner(arguments["accelerator"])):
        plugins = arguments.get("plugins")
        for each in (arguments["strategy"], *(plugins if isinstance(plugins, list) else [plugins])):
            _reject_foreign(namespace, each)


def _convert(namespace: Namespace, thing: Any) -> Any:
    home = type(thing).__module__
    if not home.startswith("northbridge.lightning.") or home == namespace.home:
        return thing
    ours = classes(namespace)
    if is_ours(thing):
        return ours.accelerator(thing.backend_name)
    name = type(thing).__name__
    if name == "CheckpointIO":
        return ours.checkpoint_io()
    other = next(each for each in NAMESPACES.values() if each.home == home)
    counterparts = {cls.__name__: cls for cls in (*ours.strategies, ours.mixed_ddp)}
    if other.is_trainer != namespace.is_trainer or name not in counterparts:
        raise NamespaceError(
            f"{home}.{name} was given to a {namespace.host} of {namespace.name}. Fix: import it from {namespace.home}"
        )
    counterpart = counterparts[name].__new__(counterparts[name])
    counterpart.__dict__.update(thing.__dict__)
    if thing._accelerator is not None:
        counterpart._accelerator = _convert(namespace, thing._accelerator)
    return counterpart


def _reject_foreign(namespace: Namespace, thing: Any) -> None:
    home = type(thing).__module__
    theirs = next((each for each in NAMESPACES.values() if home == each.name or home.startswith(f"{each.name}.")), None)
    if theirs is None or theirs.name in (namespace.name, namespace.fabric):
        return
    name = type(thing).__name__
    package = home.removeprefix(f"{theirs.name}.").split(".")[0]
    raise NamespaceError(
        f"{home}.{name} was given to a {namespace.host} of {namespace.name}. Fix: import it from"
        f" {namespace.name}.{package}"
    )


def _convert_names(namespace: Namespace, arguments: dict[str, Any]) -> None:
    """Replace every vendor's name among the arguments of a Trainer or Fabric of ``namespace``, in place.

    A strategy or a precision sets the accelerator if the user named none. Raises :class:`ArgumentsError` or
    :class:`UnsupportedError` if they contradict, and the errors of :func:`load_with_hardware`.
    """
    arguments["strategy"] = _resolve_alias(namespace, arguments["strategy"])
    strategy, plugins = arguments["strategy"], _listed(arguments.get("plugins"))
    for attribute in ("_precision_plugin", "_precision"):
        settle_plugin(namespace, getattr(strategy, attribute, None))
    precisions = [each for each in plugins if is_open(each, PrecisionName)]
    if precisions or any(_holds_name(each) for each in plugins):
        arguments["plugins"] = [settle_plugin(namespace, each) for each in plugins if each not in precisions]
    if is_open(strategy, StrategyName):
        arguments["strategy"] = _settle_strategy(namespace, strategy, arguments, precisions)
    for precision in precisions:
        _settle_accelerator(precision, arguments)
        _settle_precision(namespace, precision, arguments)
    if is_open(arguments["accelerator"], AcceleratorName):
        arguments["accelerator"] = arguments["accelerator"].settle(namespace)


def settle_plugin(namespace: Namespace, plugin: Any) -> Any:
    """Convert a plugin of no namespace yet, or one that wraps one, to ``namespace``."""
    if isinstance(plugin, Float8Plugin):
        plugin.__class__ = getattr(classes(namespace), plugin.field)
        return plugin
    if is_open(plugin, CheckpointIOName):
        return plugin.settle(namespace)
    if _holds_name(plugin):  # Lightning's AsyncCheckpointIO
        plugin._checkpoint_io.settle(namespace)
    return plugin


def _holds_name(plugin: Any) -> bool:
    if isinstance(plugin, Float8Plugin):
        return True
    return is_open(plugin, VendorName) or is_open(getattr(plugin, "_checkpoint_io", None), VendorName)


def _listed(plugins: Any) -> list[Any]:
    if plugins is None:
        return []
    return list(plugins) if isinstance(plugins, (list, tuple)) else [plugins]


def _resolve_alias(namespace: Namespace, strategy: Any) -> Any:
    word = strategy.lower() if isinstance(strategy, str) else None
    if word not in namespace.strategy_registry:
        return strategy
    entry = namespace.strategy_registry[word]
    registered = entry["strategy"]
    if isinstance(registered, type) and issubclass(registered, StrategyName):  # a script's own, derived from a name
        return registered(**entry["init_params"])
    return registered(**_arguments_of(namespace, registered)) if isinstance(registered, Alias) else strategy


def _arguments_of(namespace: Namespace, alias: Alias) -> dict[str, Any]:
    """Return the arguments that Lightning has for the name without the backend's: ``acme_deepspeed_stage_3``."""
    stock_name = alias.name.removeprefix(f"{alias.backend}_")
    if stock_name not in namespace.strategy_registry:
        return {}
    stock = namespace.strategy_registry[stock_name]
    is_deepspeed = stock["strategy"] is classes(namespace).deepspeed.stock_class
    return dict(stock["init_params"]) if is_deepspeed else {}


def _settle_strategy(
    namespace: Namespace, strategy: StrategyName, arguments: dict[str, Any], precisions: list[PrecisionName]
) -> Any:
    given = dict(strategy.arguments)
    if arguments["accelerator"] == "auto" and given.get("accelerator") is not None:
        arguments["accelerator"] = given.pop("accelerator")
    elif is_open(given.get("accelerator"), AcceleratorName):
        given["accelerator"] = given["accelerator"].settle(namespace)
    _settle_accelerator(strategy, arguments)
    for argument in PRECISION_OF_STRATEGY:
        precision = given.pop(argument, None)
        if is_open(precision, PrecisionName):
            precisions.append(precision)
        elif precision is not None:
            given[PRECISION_OF_STRATEGY[0 if namespace.is_trainer else 1]] = precision
    if given.get("checkpoint_io") is not None:
        given["checkpoint_io"] = settle_plugin(namespace, given["checkpoint_io"])
    load_with_hardware(strategy.backend_name)
    return strategy.become(strategy.make(namespace, given))


def _settle_accelerator(name: VendorName, arguments: dict[str, Any]) -> None:
    asked = arguments["accelerator"]
    if asked == "auto":
        arguments["accelerator"] = name.backend_name
        return
    found = asked if isinstance(asked, str) else getattr(asked, "backend_name", type(asked).__name__)
    if found != name.backend_name:
        raise UnsupportedError(
            f"{type(name).__name__} is for {name.backend_name!r}, not for accelerator={found!r}. Fix:"
            f" accelerator={name.backend_name!r}",
            capability="strategy" if isinstance(name, StrategyName) else "precision",
        )


def _settle_precision(namespace: Namespace, name: PrecisionName, arguments: dict[str, Any]) -> None:
    asked = arguments.get("precision")
    unified = namespace.fabric_module("connector")._convert_precision_to_unified_args
    if asked is not None and unified(asked) != name.words[name.precision]:
        raise ArgumentsError(f"precision={asked!r} contradicts {name!r}. Fix: leave one out")
    plugin = name.plugin()
    made = None if plugin is None else settle_plugin(namespace, plugin)
    if not is_vendor_class(type(name)):
        load_with_hardware(name.backend_name)
        made = name.settle(namespace) if made is None else name.become(made)
    elif made is None:
        arguments["precision"] = name.words[name.precision]
        return
    arguments["precision"] = None
    arguments["plugins"] = [*_listed(arguments.get("plugins")), made]
