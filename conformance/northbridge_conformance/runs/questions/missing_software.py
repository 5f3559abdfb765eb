"""Load a backend without its vendor's package, as on most machines."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def answer(name: str, package: str, namespace: str) -> dict[str, object]:
    """Return the results of ``detect``, ``available``, ``load`` and a Trainer of ``namespace`` without ``package``.

    An empty ``package`` hides nothing, as for a backend that brings its software itself.
    """
    if package:
        hide(package.partition(".")[0])
    import northbridge
    from northbridge.autoload import arm
    from northbridge.discovery.present import detect

    def build_trainer() -> object:
        arm()  # torch imports device backends on its import, and must not import the vendor's here
        lightning: Any = importlib.import_module(namespace)
        return lightning.Trainer(
            accelerator=name, devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False
        )

    found = {
        "declared": _try(lambda: northbridge.get(name).name),
        "detected": _try(lambda: detect(northbridge.get(name))),
        "available": _try(northbridge.available),
        "loaded": _try(lambda: northbridge.load(name).name),
    }
    return {**found, "trainer": _try(build_trainer) if package else found["loaded"]}


def _try(action: Callable[[], object]) -> list[str]:
    try:
        return ["", repr(action())]
    except Exception as error:
        if getattr(error, "timed_out", False):
            raise
        return [type(error).__name__, str(error)]


def hide(package: str) -> None:
    """Hide ``package`` and its submodules from all finders."""
    for module in [each for each in sys.modules if each.partition(".")[0] == package]:
        del sys.modules[module]
    sys.meta_path[:] = [_Blind(finder, package) for finder in sys.meta_path]


class _Blind:
    """A finder that hides one package."""

    def __init__(self, finder: Any, package: str) -> None:
        self._finder = finder
        self._package = package

    def find_spec(self, fullname: str, *arguments: Any) -> Any:
        return None if fullname.partition(".")[0] == self._package else self._finder.find_spec(fullname, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)
