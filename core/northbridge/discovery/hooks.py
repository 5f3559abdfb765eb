"""Import of one plugin and its conversion to a ``Backend``, with all its errors.

pluggy's own loader stops at the first broken plugin, ignores the second of two plugins with one name, and registers a
misspelt hook silently. So each plugin is imported and registered here by itself, with its own manager.
"""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

import pluggy

from northbridge.backend import API_VERSION, Backend
from northbridge.discovery.installed import SEPARATE, Plugin, announced, say_install
from northbridge.errors import (
    PluginAPIError,
    PluginHookError,
    PluginImportError,
    PluginNameError,
    SoftwareMissingError,
    VariableError,
)
from northbridge.processes.endings import describe_error
from northbridge.simulation import Simulation

_PROJECT = "northbridge"

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker(_PROJECT)


@hookspec(firstresult=True)
def northbridge_backend() -> Backend:  # type: ignore[empty-body]  # a hookspec has no body
    """Return the chip family of this plugin. Called once per process, when its name is first used."""


@hookspec(firstresult=True)
def northbridge_simulation() -> Simulation:  # type: ignore[empty-body]
    """Return the simulation of a vendor's chip. Called once per process, if ``NORTHBRIDGE_SIMULATE`` names it."""


Result = TypeVar("Result")


@dataclass(frozen=True)
class Hook(Generic[Result]):
    """One of the hooks above: its name, the kind of its plugin in messages, and the type of its result."""

    name: str
    kind: str
    result: type[Result]


BACKEND = Hook("northbridge_backend", "backend", Backend)
SIMULATION = Hook("northbridge_simulation", "simulation", Simulation)


def declare(plugin: Plugin) -> Backend:
    """Import ``plugin`` and build its backend. Raises a :class:`PluginError` or :class:`SoftwareMissingError`."""
    backend = call(plugin, BACKEND)
    if not isinstance(backend.api, int):
        raise PluginAPIError(
            f"backend {plugin.name!r} ({plugin}) has api={backend.api!r}, not a whole number. Fix: upgrade"
            f" {plugin.distribution}",
            backend=plugin.name,
        )
    if backend.api != API_VERSION:
        raise PluginAPIError(
            f"backend {plugin.name!r} ({plugin}) needs plugin API {backend.api}, not {API_VERSION}. Fix:"
            f" upgrade {'Northbridge' if backend.api > API_VERSION else plugin.distribution}",
            backend=plugin.name,
        )
    if backend.name != plugin.name:
        raise PluginNameError(
            f"{plugin} announces backend {plugin.name!r} but declares {backend.name!r}. Fix: its vendor"
            " must use one name",
            backend=plugin.name,
        )
    return backend


def call(plugin: Plugin, hook: Hook[Result]) -> Result:
    """Import ``plugin`` and call its ``hook``, which returns an instance of ``hook.result``.

    Raises a :class:`PluginError` or :class:`SoftwareMissingError`.
    """
    who = f"{hook.kind} {plugin.name!r} ({plugin})"
    return _call_hook(plugin, hook, who, _register(plugin, hook, who, _import(plugin, who)))


def _import(plugin: Plugin, who: str) -> ModuleType:
    try:
        module = importlib.import_module(plugin.module)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        if f"{plugin.module}.".startswith(f"{missing}.") or missing.startswith(f"{plugin.module}."):
            raise PluginImportError(
                f"{who} lacks module {missing!r}. Fix: reinstall {plugin.distribution}",
                backend=plugin.name,
            ) from error
        ours = {each.module: each.name for each in announced(SEPARATE)}
        fix = (
            say_install(ours[missing]) if missing in ours else "install it (a plugin should import it in Bridge.load())"
        )
        raise SoftwareMissingError(
            f"{who} needs {missing!r}, which is not installed. Fix: {fix}",
            backend=plugin.name,
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too, and a panic in Rust
        raise PluginImportError(
            f"{who} could not be imported: {describe_error(error)}. Fix: upgrade or uninstall {plugin.distribution}",
            backend=plugin.name,
        ) from error
    if not isinstance(module, ModuleType):
        raise PluginImportError(
            f"{who} replaced its module by a {type(module).__name__}. Fix: upgrade {plugin.distribution}",
            backend=plugin.name,
        )
    return module


def _register(plugin: Plugin, hook: Hook[Any], who: str, module: ModuleType) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(_PROJECT)
    manager.add_hookspecs(importlib.import_module(__name__))
    try:
        manager.register(module, plugin.name)
    except pluggy.PluginValidationError as error:
        raise PluginHookError(
            f"{who}: {hook.name}() must accept no arguments: {str(error).splitlines()[-1]}. Fix: upgrade"
            f" {plugin.distribution}",
            backend=plugin.name,
        ) from error
    hooks = [caller.name for caller in manager.get_hookcallers(module) or []]
    if hook.name in hooks:
        return manager
    near = difflib.get_close_matches(hook.name, hooks, n=1, cutoff=0.5)
    if near:
        found = f"{near[0]!r}, which looks misspelt"
    elif callable(getattr(module, hook.name, None)):
        found = f"a function {hook.name}() without @northbridge.hookimpl above it"
    else:
        found = "none"
    raise PluginHookError(
        f"{who}: {plugin.module!r} has no hook {hook.name!r}; found {found}. Fix: upgrade {plugin.distribution}",
        backend=plugin.name,
    )


def _call_hook(plugin: Plugin, hook: Hook[Result], who: str, manager: pluggy.PluginManager) -> Result:
    try:
        result: object = getattr(manager.hook, hook.name)()
    except (KeyboardInterrupt, VariableError):
        raise  # a wrong variable is not the plugin's fault
    except BaseException as error:
        raise PluginHookError(
            f"{who}: {hook.name}() raised {describe_error(error)}. Fix: upgrade or uninstall {plugin.distribution}",
            backend=plugin.name,
        ) from error
    if not isinstance(result, hook.result):
        raise PluginHookError(
            f"{who}: {hook.name}() must return a {hook.result.__name__}, found {result!r}. Fix: upgrade"
            f" {plugin.distribution}",
            backend=plugin.name,
        )
    return result
