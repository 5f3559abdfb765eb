"""Choices of Lightning's connector: ``accelerator="auto"``, the cluster environment and the precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from northbridge.discovery.installed import LIGHTNING_NAMES, find, names, reject_unknown_disabled
from northbridge.discovery.present import candidate
from northbridge.errors import AmbiguousAcceleratorError, DetectionError, NorthbridgeError, UnsupportedError
from northbridge.lightning.accelerators.accelerator import load_with_hardware
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.precision import (
    FLOAT8,
    OF_FSDP,
    mixed_precision,
    reject_plugin,
    reject_precision,
)
from northbridge.lightning.strategies.user_classes import derive
from northbridge.process_record import note
from northbridge.settings import CoreSettings


def choose_auto(lightning_choice: Callable[[], str]) -> str:
    """Choose the accelerator for ``auto``, load it if it is ours, and record the reason.

    A simulated chip that ``NORTHBRIDGE_SIMULATE`` names comes first. Then Lightning's own choice, unless that is the
    CPU. Then the only backend whose real hardware is present; several are an :class:`AmbiguousAcceleratorError`.
    Without one, a backend that took too long to count its devices is a :class:`DetectionError`: it may have hardware.
    """
    settings = CoreSettings.read()
    reject_unknown_disabled()
    if settings.simulate is not None:
        return _choose(settings.simulate, "NORTHBRIDGE_SIMULATE names it")
    choice = lightning_choice()
    if choice in names() and choice not in LIGHTNING_NAMES and not settings.disables(choice):
        return _choose(choice, "Lightning found its hardware")  # up to 2.5.5, by a package that the backend replaces
    if choice != "cpu":
        note("auto", f"chose {choice}", "Lightning found its hardware")
        return choice
    present, slow = _backends_with_hardware()
    if slow is not None and not present:
        raise slow
    if len(present) > 1:
        found, one = " and ".join(present), present[0]
        raise AmbiguousAcceleratorError(f"accelerator='auto' found {found}. Fix: accelerator={one!r}")
    if present:
        return _choose(present[0], "its hardware is present, and no other accelerator's")
    note("auto", "chose cpu", "no accelerator's hardware is present")
    return choice


def _choose(name: str, reason: str) -> str:
    load_with_hardware(name)
    note("auto", f"chose {name}", reason)
    return name


def _backends_with_hardware() -> tuple[list[str], DetectionError | None]:
    """Return the backends that ``auto`` may choose, and the error of one that took too long to count its devices.

    Records why it passes over each other backend.
    """
    present, slow = [], None
    for name in names():
        try:
            reason = _reason_against(name)
        except NorthbridgeError as error:
            reason = str(error)
            if isinstance(error, DetectionError) and error.timed_out:
                slow = error
        if reason is None:
            present.append(name)
        else:
            note("auto", f"passed over {name}", reason)
    return present, slow


def _reason_against(name: str) -> str | None:
    find(name)  # two plugins with one name, or a disabled name, are errors before detection
    found = candidate(name)
    if found.get("simulated"):
        return f"it is simulated; NORTHBRIDGE_SIMULATE={name} would choose it"
    if not found.get("auto", True):
        return "it asks not to be chosen by auto"
    if found["devices"] < 1:
        return "no hardware is present"
    return None


def detects_slurm(namespace: Namespace, plugins: Any) -> bool:
    """Return True if SLURM would be detected for this process, and the user names no cluster environment."""
    environments: Any = namespace.fabric_module("plugins.environments")
    given = plugins if isinstance(plugins, (list, tuple)) else [plugins]
    own = any(isinstance(each, environments.ClusterEnvironment) for each in given)
    return not own and bool(environments.SLURMEnvironment.detect()) and not detects_mpiexec(namespace)


def detects_mpiexec(namespace: Namespace) -> bool:
    """Return True if mpiexec has started this process."""
    # torchrun comes first, because mpiexec may start its agents. jsrun sets the variables of Open MPI itself.
    environments: Any = namespace.fabric_module("plugins.environments")
    if environments.TorchElasticEnvironment.detect() or environments.LSFEnvironment.detect():
        return False
    return bool(classes(namespace).mpiexec_environment.detect())


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
        if isinstance(plugin, (ours.float8_precision, ours.float8_inference)):
            plugin.bind(backend)
        reject_plugin(backend, plugin)
        return None
    precision = getattr(connector, namespace.precision_flag)
    reject_precision(backend, precision)
    if sharded:
        _reject_unsharded("DeepSpeed", precision)
        return None  # Lightning's DeepSpeedPrecision, whose backward pass and step are the engine's
    if precision == FLOAT8:
        plugin = ours.float8_precision()
        plugin.bind(backend)
        return plugin
    if precision == "16-mixed" and isinstance(connector.strategy, ours.model_parallel):
        return None  # Lightning rejects it: its gradient scaler does not support sharded gradients
    plugin = mixed_precision(namespace, backend, precision)
    if plugin is not None:
        # The line that Lightning logs when it chooses it.
        words = {"bf16-mixed": "bfloat16", "16-mixed": "16bit" if namespace.is_trainer else "16-bit"}
        line = f"Using {words[precision]} Automatic Mixed Precision (AMP)"
        namespace.fabric_module("utilities.rank_zero").rank_zero_info(line)
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
