"""The accelerator class of every backend, and the chips that this process holds."""

from __future__ import annotations

import os
import sys
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any, ClassVar

import torch

from northbridge.backend import Backend, reject_denied
from northbridge.discovery.current import loaded, seed_chip
from northbridge.discovery.declared import get
from northbridge.discovery.loaded import load, reject_missing_software
from northbridge.discovery.present import detect, missing_software
from northbridge.errors import (
    HardwareMissingError,
    NorthbridgeError,
    SoftwareLoadError,
    SoftwareMissingError,
    WrongDeviceError,
)
from northbridge.lightning.accelerators.cpu import CPU, CPUQuestions
from northbridge.lightning.accelerators.device_indices import parse_devices
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.process_record import logger, note

_handed_on: ContextVar[tuple[Backend, int] | None] = ContextVar("the backend of the connector", default=None)


@contextmanager
def hand_on(found: tuple[Backend, int] | None) -> Iterator[None]:
    """Let the accelerator's class answer Lightning inside the ``with`` by what :func:`load_with_hardware` has found.

    Lightning passes the name alone, and would have it looked up, and its devices counted, at each question.
    """
    token = _handed_on.set(found)
    try:
        yield
    finally:
        _handed_on.reset(token)


class AcceleratorQuestions(ABC):
    """Lightning's questions about the backend ``backend_name``; answering acquires no card."""

    backend_name: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return the name for ``accelerator=``."""
        return cls.backend_name

    @classmethod
    def resolve(cls) -> Backend:
        """Return the backend called ``backend_name``: the connector's, or the one that this process runs on.

        Else it is a declared one. Raises the errors of :func:`northbridge.get`.
        """
        found = cls._found()
        if found is not None:
            return found[0]
        running = loaded()
        return running if running is not None and running.name == cls.backend_name else get(cls.backend_name)

    @classmethod
    def _found(cls) -> tuple[Backend, int] | None:
        found = _handed_on.get()
        return found if found is not None and found[0].name == cls.backend_name else None

    @classmethod
    def _count(cls) -> int:
        found = cls._found()
        return detect(cls.resolve()) if found is None else found[1]

    @classmethod
    def is_available(cls) -> bool:
        """Return True if this machine has a device of this backend. If detection fails, the record says why.

        Lightning asks every registered accelerator before it raises an error of its own, so this must not raise.
        """
        try:
            return cls._count() > 0
        except NorthbridgeError as error:
            note(cls.backend_name, "not available", str(error), problem=True)
            return False

    @classmethod
    def auto_device_count(cls) -> int:
        """Return the number of devices that ``devices="auto"`` uses."""
        # In a notebook, several devices would need forked processes. Lightning uses one there, but only for CUDA.
        return 1 if hasattr(sys, "ps1") else cls._count()

    @classmethod
    def parse_devices(cls, devices: Any) -> list[int]:
        """Return the indices that ``devices=`` asks for. Raises :class:`northbridge.DevicesError`."""
        return parse_devices(devices, count=cls._count(), name=cls.backend_name)

    @classmethod
    def get_parallel_devices(cls, devices: list[int]) -> list[torch.device]:
        """Return the devices with these indices. Loads the backend's software."""
        backend = cls.resolve()
        kind = (backend if cls._found() else load(backend)).device.type
        return [torch.device(kind, index) for index in devices]


class _AcceleratorMixin(AcceleratorQuestions, _NamespaceMixin):
    """One chip family in Lightning; ``Accelerator("acme")`` for the backend ``acme``.

    Lightning asks the accelerator's *class* about availability and ``devices=``, so each backend gets its own subclass:
    ``Accelerator("acme")`` is an instance of ``Accelerator.of("acme")``.
    """

    backend_name = ""

    def __new__(cls, backend: str = "") -> Any:
        return super().__new__(cls if cls.backend_name else cls.of(backend))

    def __init__(self, backend: str = "") -> None:
        super().__init__()
        self._acquired: int | None = None

    @classmethod
    def of(cls, backend: str) -> Any:
        """Return the class for one backend, loading nothing."""
        return _class_for(cls.siblings.accelerator, backend)

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled by namespace and name: the class itself cannot be imported by name.
        return self.siblings.accelerator, (self.backend_name,)

    def __getstate__(self) -> dict[str, Any]:
        # Of a user's own class: another process holds no device yet, and looks up its own backend.
        return {key: value for key, value in vars(self).items() if key != "backend"} | {"_acquired": None}

    @cached_property
    def backend(self) -> Backend:
        """The backend of this accelerator; cached, because the strategy reads it in every step."""
        return self.resolve()

    def setup_device(self, device: torch.device) -> None:
        """Acquire ``device`` unless this process holds one already; reject a device that is not the chip's."""
        self.reject_foreign(device)
        if self._acquired is None:
            self.acquire(device, local_rank=0, world_size=1)

    def reject_foreign(self, device: torch.device) -> None:
        """Raise :class:`WrongDeviceError` unless ``device`` is one of the chip's."""
        if device.type != self.backend.device.type:
            raise WrongDeviceError(
                f"accelerator={self.backend_name!r}, but the strategy's root device is '{device}'. Fix:"
                f" leave strategy= out, or give it a {self.backend.device.type!r} device"
            )

    def acquire(self, device: torch.device, *, local_rank: int, world_size: int) -> None:
        """Acquire the parallel device ``device`` for this rank: the first use of a card. A repeated call does nothing.

        Raises :class:`WrongDeviceError` if ``device`` is not the chip's, or if this accelerator holds another device.
        """
        self.reject_foreign(device)
        index = device.index or 0
        if self._acquired == index:
            return
        if self._acquired is not None:
            raise WrongDeviceError(
                f"this {self.namespace.host} holds device {self._acquired} of {self.backend_name!r}, not {index}."
                f" Fix: build another {self.namespace.host}"
            )
        backend = self.backend
        backend.bridge.prepare_rank(index=index, local_rank=local_rank, world_size=world_size)
        backend.device.select(index)
        assert_autograd_serves(backend, index)
        self._acquired = index
        hold(backend)
        self.seed()

    def seed(self) -> None:
        """Seed the chip with the seed of ``seed_everything``, which a launched rank has in its environment.

        An invalid seed in the variable is ignored: Lightning rejects it, except on one device, where it never reads it.
        """
        seed = seed_of_environment()
        if seed is not None:
            seed_chip(self.backend, seed)

    def get_device_stats(self, device: torch.device | str | int) -> dict[str, float]:
        """Return a fresh dictionary of the chip's statistics; DeviceStatsMonitor adds to it.

        Raises :class:`northbridge.UnsupportedError` if the chip says that it has none.
        """
        what = f"{self.backend_name!r} has no statistics of memory"
        reject_denied(self.backend, "memory_stats", what, "leave DeviceStatsMonitor out")
        index = device if isinstance(device, int) else torch.device(device).index or 0
        return dict(self.backend.device.memory_stats(index))

    def teardown(self) -> None:
        """Release the memory that the chip caches."""
        self.backend.device.empty_cache()


@cache
def _class_for(combined: Any, backend: str) -> Any:
    attributes = {"backend_name": backend, "__module__": combined.__module__}
    bases = (CPUQuestions, combined) if backend == CPU.name else (combined,)
    return type(f"Accelerator({backend!r})", bases, attributes)


LARGEST_SEED = 2**32 - 1
"""The largest seed that ``seed_everything`` accepts."""


def seed_of_environment() -> int | None:
    """Return the seed that ``seed_everything`` left in the environment; None if there is no valid seed."""
    try:
        seed = int(os.environ.get("PL_GLOBAL_SEED", ""))
    except ValueError:
        return None
    return seed if 0 <= seed <= LARGEST_SEED else None


def load_with_hardware(name: str) -> tuple[Backend, int]:
    """Detect the hardware and load the software of backend ``name``, for a run that asked for it by name.

    Returns the backend and the number of its devices. Raises the errors of :func:`northbridge.load`, and
    :class:`HardwareMissingError` before Lightning raises its own.
    """
    backend = get(name)
    count = detect(backend)
    if count < 1:
        reject_missing_software(backend)
        missing = missing_software(backend)
        if missing is not None:
            raise SoftwareMissingError(missing, backend=name)
        raise HardwareMissingError(
            f"accelerator={name!r}: no hardware. Fix: see `northbridge list`",
            backend=name,
        )
    return load(backend), count


def is_ours(accelerator: object) -> bool:
    """Return True if ``accelerator`` is one of Northbridge's, of any namespace."""
    return is_our_class(type(accelerator))


def is_our_class(cls: type | None) -> bool:
    """Return True if ``cls`` is the class of one of Northbridge's accelerators, of any namespace."""
    return bool(getattr(cls, "backend_name", ""))


announced: set[str] = set()
"""The simulated chips that this job has announced to the user; a spawned rank gets its parent's."""


def announce_simulation(backend: Backend) -> None:
    """Warn that a chip is simulated, once in each job. The caller makes sure that this is rank 0."""
    if backend.capabilities.simulated and backend.name not in announced:
        announced.add(backend.name)
        logger.warning(
            "%s is a simulated chip: it uses the host's memory and CPU. Numbers are the CPU's; its speed says"
            " nothing about a real chip.",
            backend.name,
        )


_held: dict[str, Backend] = {}
_holder = -1


def hold(backend: Backend) -> None:
    """Note that the accelerator has just acquired a device of this chip."""
    global _holder
    if _holder != os.getpid():
        _held.clear()  # they are the parent's: a forked process holds no chip
        _holder = os.getpid()
    _held[backend.name] = backend


def held() -> dict[str, Backend]:
    """Return the backends whose device this process holds, by name."""
    return dict(_held) if _holder == os.getpid() else {}


def assert_autograd_serves(backend: Backend, index: int) -> None:
    """Raise :class:`SoftwareLoadError` unless gradients can be computed on the device ``index``, which is held.

    Autograd starts its device threads at the first ``backward()`` of the process, and never later. The chip's own
    errors pass through. Under ``torch.inference_mode``, which computes no gradients, it does nothing.
    """
    if torch.is_inference_mode_enabled():  # leaving it would start autograd's threads, which the chip may not need
        return
    device = backend.device.root(index)
    try:
        with torch.enable_grad():
            leaf = torch.ones(1, device=device, dtype=torch.float32, requires_grad=True)
            torch.autograd.grad(leaf.sum(), leaf)  # not Tensor.backward, which scripts may count or replace
    except RuntimeError as error:
        reason = _explain(str(error), backend.name, device)
        if reason is None:
            raise
        raise SoftwareLoadError(reason, backend=backend.name) from error


def _explain(said: str, name: str, device: torch.device) -> str | None:
    """Return the reason why autograd does not serve ``device``; None for the chip's own errors."""
    first = f"`import northbridge; northbridge.load({name!r})` at the top of the script"
    if "Cannot access accelerator device" in said:
        return f"torch was asked for its accelerator before {name!r} was loaded, and keeps its answer. Fix: {first}"
    if "device_ready_queues_" not in said:  # in autograd's error if it has no thread for a device
        return None
    if _backward_ran_before():
        return (
            f"{name!r} was loaded too late: a backward() ran before, and autograd serves only devices it knew then."
            f" Fix: {first}; if it is there already, add torch.ones(1, device={device.type!r})"
        )
    return f"autograd has no thread for '{device}': {name!r} tells torch of fewer devices. Fix: report it to its vendor"


def _backward_ran_before() -> bool:
    """Return True if a backward() ran in this process before the current one, which failed."""
    runs: list[int] = []
    leaf = torch.ones(1, device="cpu", requires_grad=True)
    leaf.register_hook(lambda _: runs.append(torch._C._current_graph_task_id()))  # type: ignore[no-untyped-call]  # torch's
    torch.autograd.grad(leaf.sum(), leaf)
    return runs[0] > 1  # torch counts graph tasks from 0
