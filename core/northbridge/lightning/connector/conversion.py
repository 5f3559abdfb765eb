"""How a Trainer or a Fabric takes vendors' names: from here on they are what they stand for in its namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.lightning.accelerators.accelerator import load_with_hardware
from northbridge.lightning.vendor_names.entry_points import Alias
from northbridge.lightning.vendor_names.names import AcceleratorName, CheckpointIOName, PrecisionName, VendorName
from northbridge.lightning.vendor_names.strategies import PRECISION_OF_STRATEGY, StrategyName

if TYPE_CHECKING:
    from northbridge.lightning.namespaces import Namespace


def take_names(namespace: Namespace, arguments: dict[str, Any]) -> None:
    """Replace every vendor's name among the arguments of a Trainer or Fabric of ``namespace``, in place.

    A strategy or a precision settles the accelerator where the user has named none. Raises :class:`ArgumentsError` or
    :class:`UnsupportedError` where they contradict, and what :func:`load_with_hardware` raises.
    """
    arguments["strategy"] = _resolve_alias(namespace, arguments["strategy"])
    strategy, plugins = arguments["strategy"], _listed(arguments.get("plugins"))
    precisions = [each for each in plugins if isinstance(each, PrecisionName)]
    if precisions or any(_holds_name(each) for each in plugins):
        arguments["plugins"] = [settle_plugin(namespace, each) for each in plugins if each not in precisions]
    if isinstance(strategy, StrategyName):
        arguments["strategy"] = _settle_strategy(namespace, strategy, arguments, precisions)
    for precision in precisions:
        _settle_accelerator(precision, arguments)
        _settle_precision(namespace, precision, arguments)
    if isinstance(arguments["accelerator"], AcceleratorName):
        arguments["accelerator"] = arguments["accelerator"].settle(namespace)


def settle_plugin(namespace: Namespace, plugin: Any) -> Any:
    """Return ``plugin`` as one of ``namespace``, where it is a vendor's name for a checkpoint plugin, or wraps one."""
    if isinstance(plugin, CheckpointIOName):
        return plugin.settle(namespace)
    if _holds_name(plugin):  # Lightning's AsyncCheckpointIO
        plugin._checkpoint_io.settle(namespace)
    return plugin


def _holds_name(plugin: Any) -> bool:
    return isinstance(plugin, VendorName) or isinstance(getattr(plugin, "_checkpoint_io", None), VendorName)


def _listed(plugins: Any) -> list[Any]:
    if plugins is None:
        return []
    return list(plugins) if isinstance(plugins, (list, tuple)) else [plugins]


def _resolve_alias(namespace: Namespace, strategy: Any) -> Any:
    word = strategy.lower() if isinstance(strategy, str) else None
    registered = namespace.strategy_registry[word]["strategy"] if word in namespace.strategy_registry else None
    return registered() if isinstance(registered, Alias) else strategy


def _settle_strategy(
    namespace: Namespace, strategy: StrategyName, arguments: dict[str, Any], precisions: list[PrecisionName]
) -> Any:
    given = dict(strategy.arguments)
    if arguments["accelerator"] == "auto" and given.get("accelerator") is not None:
        arguments["accelerator"] = given.pop("accelerator")
    elif isinstance(given.get("accelerator"), AcceleratorName):
        given["accelerator"] = given["accelerator"].settle(namespace)
    _settle_accelerator(strategy, arguments)
    for argument in PRECISION_OF_STRATEGY:
        precision = given.pop(argument, None)
        if isinstance(precision, PrecisionName):
            precisions.append(precision)
        elif precision is not None:
            given[PRECISION_OF_STRATEGY[0 if namespace.is_trainer else 1]] = precision
    if given.get("checkpoint_io") is not None:
        given["checkpoint_io"] = settle_plugin(namespace, given["checkpoint_io"])
    load_with_hardware(strategy.backend_name)
    return strategy.settle(namespace, given)


def _settle_accelerator(name: VendorName, arguments: dict[str, Any]) -> None:
    asked = arguments["accelerator"]
    if asked == "auto":
        arguments["accelerator"] = name.backend_name
        return
    found = asked if isinstance(asked, str) else getattr(asked, "backend_name", type(asked).__name__)
    if found != name.backend_name:
        raise UnsupportedError(
            f"{type(name).__name__} is for {name.backend_name!r}, and accelerator={found!r} was asked for: write"
            f" accelerator={name.backend_name!r}, or leave {type(name).__name__} out",
            capability="strategy" if isinstance(name, StrategyName) else "precision",
        )


def _settle_precision(namespace: Namespace, name: PrecisionName, arguments: dict[str, Any]) -> None:
    asked = arguments.get("precision")
    unified = namespace.fabric_module("connector")._convert_precision_to_unified_args
    if asked is not None and unified(asked) != name.precision:
        raise ArgumentsError(
            f"precision={asked!r} and {name!r} were both given, and differ; write one of them, precision= where you can"
        )
    arguments["precision"] = name.precision
