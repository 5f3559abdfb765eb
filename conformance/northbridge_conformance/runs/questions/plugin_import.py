"""Measure the import of a plugin's module, in a process that has northbridge and pluggy."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path


def answer(module: str) -> dict[str, object]:
    """Return the CPU and wall time of ``import <module>``, the modules it imports, and the traces it leaves."""
    import pluggy  # noqa: F401

    # northbridge imports a public name on first use: what a plugin's classes stand on costs it nothing.
    from northbridge import Acceleration, Backend, Bridge, Capabilities, Collective, Device  # noqa: F401

    modules, environ, path = set(sys.modules), dict(os.environ), list(sys.path)
    began, clock = time.process_time(), time.monotonic()
    importlib.import_module(module)
    return {
        "seconds": time.process_time() - began,
        "clock": time.monotonic() - clock,
        "modules": sorted(set(sys.modules) - modules),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "children": _children(),
        "variables": sorted(name for name, _ in environ.items() ^ dict(os.environ).items()),
        "path": sorted(set(sys.path) ^ set(path)),
    }


def _children() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (process / "stat").read_text().rpartition(")")
        except OSError:  # the process has ended
            continue
        if int(rest.split()[1]) == os.getpid():
            found.append(name.partition("(")[2])
    return found
