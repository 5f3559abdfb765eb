"""The compiled chip of this process: what it needs of the machine, its devices' type, its kernels and its graphs.

It imports nothing that needs a newer torch than the machine may have.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import torch
from packaging.version import Version

from northbridge_cpu_sim.errors import HostError

DeviceLike = torch.device | str | int | None

_installed: tuple[ModuleType, str] | None = None


def check_host() -> None:
    """Raise :class:`HostError` unless this is Linux with torch 2.13 or later.

    Called before the import of modules of ours that need a newer torch.
    """
    if platform.system() != "Linux":
        raise HostError(f"the simulated chip needs Linux, found {platform.system()}. Fix: use a container or WSL")
    if Version(torch.__version__).release < (2, 13):
        raise HostError(
            f"the simulated chip needs torch 2.13 or later, found {torch.__version__}. Fix: pip install 'torch>=2.13'"
        )


def check_sole_accelerator(device_type: str) -> None:
    """Raise :class:`HostError` if torch has another accelerator here: it refuses a second one with a key of its own.

    An accelerator without a device here does no harm, even if torch was built for it: see ``device/hooks.h``.
    """
    other = torch.accelerator.current_accelerator(check_available=True)
    if other is not None and other.type != device_type:
        raise HostError(
            f"torch {torch.__version__} has a {other.type!r} device here, beside which it refuses {device_type!r}."
            f" Fix: hide the device, or pip install torch=={Version(torch.__version__).base_version} --index-url"
            " https://download.pytorch.org/whl/cpu"
        )


def place(extension: ModuleType, name: str) -> None:
    """Make `extension` the chip of this process, with devices of the type `name`."""
    global _installed
    _installed = extension, name


def installed_type() -> str | None:
    """Return the type of this process's devices, or None without a chip."""
    return None if _installed is None else _installed[1]


def extension() -> ModuleType:
    """Return the compiled chip."""
    return _chip_and_name()[0]


def structure(extension: ModuleType, kind: str, **fields: object) -> Any:
    """Build a structure of the compiled chip, called `kind`, with these fields."""
    made = getattr(extension, kind)()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _chip_and_name() -> tuple[ModuleType, str]:
    if _installed is None:
        raise RuntimeError("the simulated chip is not loaded. Fix: northbridge.load() it")
    return _installed


def index(device: DeviceLike) -> int:
    """Return the index of `device`; None is the current device.

    Raises RuntimeError for an index that does not exist, ValueError for a device of another type.
    """
    chip, name = _chip_and_name()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != name:
            raise ValueError(f"expected a {name} device, found {str(device)!r}")
        device = device.index
    return int(chip.checked_index(-1 if device is None else device))


class Kernel(NamedTuple):
    """One kernel that ran: its name, as `cpu_sim::mm`, and its time in nanoseconds since 1970."""

    name: str
    start: int
    end: int
    device: int
    stream: int


def record_kernels() -> None:
    """Record each kernel from now on, in all threads; kernels of a former recording are dropped."""
    extension().record_kernels()


def recorded_kernels() -> list[Kernel]:
    """End the recording, and return its kernels in the order in which they ended."""
    return [Kernel(*row) for row in extension().recorded_kernels()]


def trace_operators(*, between_markers: bool = False) -> None:
    """Trace the operators of this process from now on.

    Graphs stand for what a real chip would compile: the simulated one compiles nothing, and counts those that it has
    not run before. A graph is the sequence of operators between two markers, or one operator where the vendor's
    software has no markers: their names, and the shapes, dtypes, whole numbers, booleans and texts of their inputs. A
    floating-point number, such as a learning rate, is an input.
    """
    extension().trace_operators(between_markers)


def mark_graph() -> None:
    """End the graph of the operators since the last marker; without operators there is none."""
    extension().mark_graph()


def graph_runs() -> Mapping[int, int]:
    """Return how often each graph has run, by its hash. The open graph counts from its marker on."""
    runs: Mapping[int, int] = extension().graph_runs()
    return runs
