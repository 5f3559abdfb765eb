"""The simulated chip as a module: compiled on first use, and loaded from the cache from then on."""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import northbridge
from northbridge_cpu_sim.build.cache import is_whole, open_folder, reject_foreign
from northbridge_cpu_sim.build.recipe import Recipe, find_compiler, key
from northbridge_cpu_sim.chip import check_host
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.settings import SimSettings

NAME = "northbridge_cpu_sim_chip"


def build(settings: SimSettings, recipe: Recipe) -> ModuleType:
    """Load the compiled chip as a module; compile it if no process of this user has done so.

    Called by :func:`northbridge_cpu_sim.install`. The first time takes half a minute on two free cores, and prints
    that on stderr. Raises :class:`BuildError`.
    """
    if NAME not in sys.modules:
        sys.modules[NAME] = _import(locate(settings, recipe))
    return sys.modules[NAME]


def locate(settings: SimSettings, recipe: Recipe) -> Path:
    """Find the file of the compiled chip, or compile it.

    Raises :class:`BuildError`, and :class:`northbridge.SoftwareMissingError` where this process compiles nothing.
    """
    check_host()
    compiler = find_compiler()
    folder = open_folder(settings.cache)
    stem = key(recipe, compiler)
    chip, log = folder / f"{stem}.so", folder / f"{stem}.log"
    if is_whole(chip):
        return chip
    if not northbridge.may_compile():
        raise northbridge.SoftwareMissingError(
            "the simulated chip is not compiled yet. Fix: use it, which compiles it in half a minute", backend="cpu_sim"
        )

    # Imported only if the chip must be compiled.
    from northbridge_cpu_sim.build.compile import compile_chip, failure, locked

    reject_foreign(log)
    before = _last_change(log)
    with locked(chip):
        if is_whole(chip):
            return chip
        if _last_change(log) not in (None, before):
            # Another rank failed while this one waited; this one would fail in the same way, a minute later.
            raise failure(log)
        compile_chip(NAME, recipe, compiler, chip=chip, log=log)
    return chip


def _last_change(file: Path) -> tuple[int, int] | None:
    if not file.exists():
        return None
    found = file.stat()
    return found.st_ino, found.st_mtime_ns


def _import(chip: Path) -> ModuleType:
    loader = ExtensionFileLoader(NAME, str(chip))
    try:
        module = module_from_spec(ModuleSpec(NAME, loader, origin=str(chip)))
        loader.exec_module(module)
    except ImportError as error:
        raise BuildError(f"the compiled chip does not load: {error}. Fix: delete {chip}") from None
    return module
