"""Decisions of Lightning's connector about the precision, if the accelerator is ours."""

from __future__ import annotations

from typing import Any

from northbridge.errors import UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.fsdp_precision import OF_FSDP
from northbridge.lightning.plugins.precision import (
    FLOAT8,
    mixed_precision,
    mixed_precision_line,
    reject_plugin,
    reject_precision,
)
from northbridge.lightning.user_classes import derive


def build_precision(namespace: Namespace, connector: Any) -> Any | None:
    """Build the precision plugin for the flags in ``connector``; None if Lightning's own choice is right."""
    backend = connector.accelerator.backend
    plugin = getattr(connector, namespace.precision_object)
    ours = classes(namespace)
    if isinstance(connector.strategy, ours.fsdp) or isinstance(plugin, ours.fsdp_precision.stock_class):
        return _build_fsdp_precision(namespace, connector, plugin)
    sharded = isinstance(connector.strategy, ours.deepspeed)
    if sharded and not isinstance(plugin, (namespace.module("plugins").DeepSpeedPrecision, type(None))):
        raise UnsupportedError(
            f"DeepSpeed computes gradients by itself, without {type(plugin).__name__}. Fix: precision='bf16-mixed'",
            capability="precision",
        )
    if plugin is not None:
        if isinstance(plugin, (classes(namespace).float8_precision, classes(namespace).float8_inference)):
            plugin.bind(backend)
        reject_plugin(backend, plugin)
        return None
    precision = getattr(connector, namespace.precision_flag)
    reject_precision(backend, precision)
    if sharded:
        _reject_unsharded("DeepSpeed", precision)
        return None  # Lightning's DeepSpeedPrecision, whose backward pass and step are the engine's
    if precision == FLOAT8:
        plugin = classes(namespace).float8_precision()
        plugin.bind(backend)
        return plugin
    if precision == "16-mixed" and isinstance(connector.strategy, classes(namespace).model_parallel):
        return None  # Lightning rejects it: its gradient scaler does not support sharded gradients
    plugin = mixed_precision(namespace, backend, precision)
    if plugin is not None:
        namespace.fabric_module("utilities.rank_zero").rank_zero_info(mixed_precision_line(namespace, precision))
    return plugin


def _build_fsdp_precision(namespace: Namespace, connector: Any, plugin: Any) -> Any | None:
    """Return FSDP's precision plugin, on the chip's device type; None if ``plugin`` is it, or is not one."""
    backend, ours = connector.accelerator.backend, classes(namespace).fsdp_precision
    if plugin is None:
        precision = getattr(connector, namespace.precision_flag)
        _reject_unsharded("FSDP", precision)
        plugin = made = ours(precision)
    else:
        made = None
    if isinstance(plugin, ours.stock_class):
        plugin.__class__ = derive(type(plugin), ours)
        plugin.bind(backend)
    reject_plugin(backend, plugin)
    return made


def _reject_unsharded(engine: str, precision: str) -> None:
    if precision not in OF_FSDP:  # DeepSpeed has the same
        known = ", ".join(OF_FSDP)
        raise UnsupportedError(f"{engine} has no precision={precision!r}. Fix: one of {known}", capability="precision")
