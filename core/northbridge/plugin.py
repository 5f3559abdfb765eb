"""How one plugin turns into a ``Backend``, and every way in which it can fail to.

pluggy's own loader stops at the first broken plugin, passes over the second of two plugins of one name, and registers a
misspelt hook in silence. So each plugin is imported and registered here by itself, with a manager of its own.
"""

from __future__ import annotations

import difflib
import importlib
from types import ModuleType
from typing import TYPE_CHECKING

import pluggy

from northbridge.backend import API_VERSION, Backend
from northbridge.ending import describe_error
from northbridge.errors import (
    PluginAPIError,
    PluginHookError,
    PluginImportError,
    PluginNameError,
    SoftwareMissingError,
)

if TYPE_CHECKING:
    from northbridge.discovery import Plugin

_PROJECT = "northbridge"
_HOOK = "northbridge_backend"

hookspec = pluggy.HookspecMarker(_PROJECT)


@hookspec(firstresult=True)
def northbridge_backend() -> Backend:  # type: ignore[empty-body]  # a hookspec has no body
    """Return the chip family that this plugin brings. Called once a process, when the name is asked for."""


def declare(plugin: Plugin) -> Backend:
    """Import ``plugin`` and return its backend. Raises a :class:`PluginError` or :class:`SoftwareMissingError`."""
    module = _import(plugin)
    backend = _call_hook(plugin, _register(plugin, module))
    if backend.api != API_VERSION:
        raise PluginAPIError(
            f"backend {plugin.name!r} ({plugin}) was built for version {backend.api} of the plugin API; this"
            f" Northbridge speaks version {API_VERSION}: upgrade"
            f" {'northbridge' if backend.api > API_VERSION else plugin.distribution}",
            backend=plugin.name,
        )
    if backend.name != plugin.name:
        raise PluginNameError(
            f"{plugin} announces backend {plugin.name!r} and declares Backend({backend.name!r}, …); its vendor has to"
            " make the two equal",
            backend=plugin.name,
        )
    return backend


def _import(plugin: Plugin) -> ModuleType:
    try:
        module = importlib.import_module(plugin.module)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        if f"{plugin.module}.".startswith(f"{missing}.") or missing.startswith(f"{plugin.module}."):
            raise PluginImportError(
                f"backend {plugin.name!r} ({plugin}) lacks a module of its own: {missing!r}; reinstall or upgrade"
                f" {plugin.distribution}",
                backend=plugin.name,
            ) from error
        raise SoftwareMissingError(
            f"backend {plugin.name!r} ({plugin}) is installed, but its software is not: no module named {missing!r};"
            f" install what brings {missing!r}. (A plugin should import it in Bridge.load() alone)",
            backend=plugin.name,
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too, and a panic in Rust
        raise PluginImportError(
            f"backend {plugin.name!r} ({plugin}) could not be imported: {describe_error(error)}; upgrade or uninstall"
            f" {plugin.distribution}",
            backend=plugin.name,
        ) from error
    if not isinstance(module, ModuleType):
        raise PluginImportError(
            f"backend {plugin.name!r} ({plugin}) has put {type(module).__name__!r} in the place of its module"
            f" {plugin.module!r}; upgrade or uninstall {plugin.distribution}",
            backend=plugin.name,
        )
    return module


def _register(plugin: Plugin, module: ModuleType) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(_PROJECT)
    manager.add_hookspecs(importlib.import_module(__name__))
    try:
        manager.register(module, plugin.name)
    except pluggy.PluginValidationError as error:
        raise PluginHookError(
            f"backend {plugin.name!r} ({plugin}) has a hook of the wrong shape: {_HOOK}() takes no arguments and"
            f" returns a northbridge.Backend; found: {str(error).splitlines()[-1]}; upgrade or uninstall"
            f" {plugin.distribution}",
            backend=plugin.name,
        ) from error
    hooks = [caller.name for caller in manager.get_hookcallers(module) or []]
    if _HOOK in hooks:
        return manager
    near = difflib.get_close_matches(_HOOK, hooks, n=1, cutoff=0.5)
    if near:
        found = f"{near[0]!r}, which looks misspelt"
    elif callable(getattr(module, _HOOK, None)):
        found = f"a function {_HOOK}() without @northbridge.hookimpl above it"
    else:
        found = "none"
    raise PluginHookError(
        f"backend {plugin.name!r} ({plugin}): the module {plugin.module!r} should have the hook {_HOOK!r};"
        f" found {found}; upgrade or uninstall {plugin.distribution}",
        backend=plugin.name,
    )


def _call_hook(plugin: Plugin, manager: pluggy.PluginManager) -> Backend:
    try:
        backend = getattr(manager.hook, _HOOK)()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginHookError(
            f"backend {plugin.name!r} ({plugin}): {_HOOK}() raised {describe_error(error)}; upgrade or uninstall"
            f" {plugin.distribution} (this Northbridge speaks version {API_VERSION} of the plugin API)",
            backend=plugin.name,
        ) from error
    if not isinstance(backend, Backend):
        raise PluginHookError(
            f"backend {plugin.name!r} ({plugin}): {_HOOK}() should return a northbridge.Backend; found {backend!r};"
            f" upgrade or uninstall {plugin.distribution}",
            backend=plugin.name,
        )
    return backend
