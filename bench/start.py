"""Cost of Northbridge before training: at ``import torch``, on the command line, at the first ``load``."""

from __future__ import annotations

import resource
import sysconfig
import tempfile
import time
from pathlib import Path

from bench import child
from bench.plugin import announce

# torch's own part (to look for entry points) is not ours; importing our module is, and so is all that it imports.
_AUTOLOAD = """
import time, torch
start = time.perf_counter()
from northbridge.autoload import arm
arm()
print(time.perf_counter() - start)
"""

_DISCOVERY = """
import time
from importlib.metadata import entry_points
from statistics import median
from northbridge import installed

def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start

assert len(installed()) > 100, installed()
entry_points()
print(median(seconds(installed) / seconds(entry_points) for _ in range(11)))
"""

# What `python train.py` does, up to its first step.
_FIRST_STEP = """
import os, sys
from lightning.pytorch import Callback, Trainer
from bench.models import TASKS

class End(Callback):
    def on_train_batch_end(self, *_):
        os._exit(0)

task = TASKS["mlp"]
quietly = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
Trainer(accelerator=sys.argv[1], devices=1, max_epochs=1, callbacks=[End()], **quietly).fit(
    task.learner(), task.loader(2)
)
sys.exit("no step ended")
"""

_IMPORT = "import torch"
_LOAD = "import torch, northbridge; northbridge.load('cpu_sim')"


def time_autoload() -> float:
    """Return the milliseconds, in a new process, of what torch calls at the end of its import."""
    return float(child.python(_AUTOLOAD, environ={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})) * 1e3


def time_help() -> float:
    """Return the seconds of the command, from its start to its end."""
    return _seconds(_command("--help"))


def time_listing_of_metadata() -> float:
    """Return the seconds of the command, from its start to its end."""
    return _seconds(_command("list", "--no-probe"))


def time_list() -> float:
    """Return the command's seconds of CPU, those of its children among them."""
    return _cpu_seconds(_command("list"))


def time_doctor() -> float:
    """Return the command's seconds of CPU, those of its children among them."""
    return _cpu_seconds(_command("doctor"))


def time_first_step() -> float:
    """Return the ratio of two processes' seconds to the end of their first step: on the chip, and Lightning's CPU."""
    chip = _seconds(child.python_command(_FIRST_STEP, "cpu_sim"))
    return chip / _seconds(child.python_command(_FIRST_STEP, "cpu"), {"NORTHBRIDGE_DISABLE": "1"})


def time_discovery() -> float:
    """Return the ratio of reading the metadata of all distributions as we do, to reading it as Python does."""
    with tempfile.TemporaryDirectory() as site:
        for number in range(100):
            announce(Path(site), f"vendor{number}", f"vendor{number}")
        return float(child.python(_DISCOVERY, environ={"PYTHONPATH": site}))


def time_load() -> float:
    """Return the seconds of a new process that loads the compiled chip, beyond those of one that imports torch."""
    plain = _seconds(child.python_command(_IMPORT))
    return _seconds(child.python_command(_LOAD)) - plain


def time_compile() -> float:
    """Return the seconds of a new process that finds an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environ = {"NORTHBRIDGE_CPU_SIM_CACHE": cache, "MAX_JOBS": "2"}
        return _seconds(child.python_command(_LOAD), environ)


def _command(*arguments: str) -> list[str]:
    return [str(Path(sysconfig.get_path("scripts")) / "northbridge"), *arguments]


def _cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child.run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _seconds(command: list[str], environ: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    child.run(command, environ=environ)
    return time.perf_counter() - start
