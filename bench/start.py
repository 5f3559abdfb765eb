"""Cost of Northbridge before training: at ``import torch``, on the command line, at the first ``load``."""

from __future__ import annotations

import json
import sysconfig
import tempfile
import time
from pathlib import Path

from bench import child
from bench.figure import Measurement
from bench.plugin import announce
from bench.rounds import difference, interleave, ratio

# torch's own part (to look for entry points) is not ours; importing our module is, and so is all that it imports.
_AUTOLOAD = """
import time, torch
start = time.perf_counter()
from northbridge.autoload import arm
arm()
print(time.perf_counter() - start)
"""

_DISCOVERY = """
import json, sys, time
from importlib.metadata import entry_points
from bench.rounds import interleave
from northbridge import installed

def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start

assert len(installed()) > 100, installed()
print(json.dumps(interleave(lambda: seconds(installed), lambda: seconds(entry_points), int(sys.argv[1]))))
"""

_IMPORT = "import torch"
_LOAD = "import torch, northbridge; northbridge.load('cpu_sim')"


def measure_autoload(*, quick: bool) -> Measurement:
    """Let new processes time what torch calls at the end of its import."""
    environ = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    child.python(_AUTOLOAD, environ=environ)
    return Measurement([float(child.python(_AUTOLOAD, environ=environ)) * 1e3 for _ in range(3 if quick else 9)])


def measure_list(*, quick: bool) -> Measurement:
    """Time the command, from its start to its end."""
    command = [str(Path(sysconfig.get_path("scripts")) / "northbridge"), "list", "--no-probe"]
    child.run(command)
    return Measurement([_seconds(command) for _ in range(3 if quick else 7)])


def measure_discovery(*, quick: bool) -> Measurement:
    """Let one process read the metadata of all distributions, as we do and as Python does."""
    with tempfile.TemporaryDirectory() as site:
        for number in range(100):
            announce(Path(site), f"vendor{number}", f"vendor{number}")
        pairs = json.loads(child.python(_DISCOVERY, "5" if quick else "31", environ={"PYTHONPATH": site}))
    return ratio(pairs, ("installed()", "entry_points()"), "ms", 1e3)


def measure_start(*, quick: bool) -> Measurement:
    """Time new processes that load the compiled chip, and others that only import torch."""
    load, plain = (child.python_command(code) for code in (_LOAD, _IMPORT))
    pairs = interleave(lambda: _seconds(load), lambda: _seconds(plain), 3 if quick else 11)
    return difference(pairs, ("load", "import torch"), "s")


def measure_compile() -> Measurement:
    """Time one new process that finds an empty cache; once, for it takes a minute."""
    with tempfile.TemporaryDirectory() as cache:
        environ = {"NORTHBRIDGE_CPU_SIM_CACHE": cache, "MAX_JOBS": "2"}
        return Measurement([_seconds(child.python_command(_LOAD), environ)])


def _seconds(command: list[str], environ: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    child.run(command, environ=environ)
    return time.perf_counter() - start
