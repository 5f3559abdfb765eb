"""The one accelerator."""

from __future__ import annotations

import os
import sys
from abc import ABC
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from northbridge.bridge import is_installed
from northbridge.discovery.current import loaded
from northbridge.discovery.declared import get
from northbridge.discovery.loaded import load
from northbridge.discovery.present import detect, missing_software
from northbridge.discovery.simulated import is_simulable
from northbridge.errors import HardwareMissingError, NorthbridgeError, SoftwareMissingError, WrongDeviceError
from northbridge.lightning.accelerators.autograd import assert_autograd_serves
from northbridge.lightning.accelerators.device_indices import parse_devices
from northbridge.lightning.accelerators.held import hold
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.process_record import logger, note

if TYPE_CHECKING:
    import torch

    from northbridge.backend import Backend


class AcceleratorQuestions(ABC):
    """Answer for the backend ``backend_name``; no answer takes a card."""

    backend_name: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return what ``accelerator=`` calls it."""
        return cls.backend_name

    @classmethod
    def resolve(cls) -> Backend:
        """Return the backend that this process runs on, if it has this name; otherwise look it up.

        Raises what :func:`northbridge.get` raises.
        """
        running = loaded()
        return running if running is not None and running.name == cls.backend_name else get(cls.backend_name)

    @classmethod
    def is_available(cls) -> bool:
        """Whether this machine has such a device. Where that cannot be found out, the record says why.

        Lightning asks every registered accelerator on its way to an error of its own: this must not raise.
        """
        try:
            return detect(cls.resolve()) > 0
        except NorthbridgeError as error:
            note(cls.backend_name, "not available", str(error), problem=True)
            return False

    @classmethod
    def auto_device_count(cls) -> int:
        """Return how many devices ``devices="auto"`` takes."""
        # Lightning takes one device in a notebook, for CUDA only: several would have to be forked.
        return 1 if hasattr(sys, "ps1") else detect(cls.resolve())

    @classmethod
    def parse_devices(cls, devices: Any) -> list[int]:
        """Return the indices that ``devices=`` asks for. Raises :class:`northbridge.DevicesError`."""
        return parse_devices(devices, count=detect(cls.resolve()), name=cls.backend_name)

    @classmethod
    def get_parallel_devices(cls, devices: list[int]) -> list[torch.device]:
        """Return the devices of these indices; the backend's software is loaded for that."""
        import torch

        kind = load(cls.resolve()).device.type
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
        # Namespace and name cross a process boundary: the class has no importable name of its own.
        return self.siblings.accelerator, (self.backend_name,)

    @cached_property
    def backend(self) -> Backend:
        """The backend behind this accelerator; kept, for the strategy asks in every step."""
        return self.resolve()

    def setup_device(self, device: torch.device) -> None:
        """Take ``device`` unless this process holds one already; refuse a device that is not the chip's."""
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
        """Take the parallel device ``device`` for this rank: the first touch of a card. Again, it does nothing.

        Raises :class:`WrongDeviceError` where ``device`` is not the chip's, or this accelerator holds another one.
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
        """Seed the chip with the seed of ``seed_everything``, which may have run before the chip was loaded.

        A variable that it has not written is Lightning's to refuse: on one device, it never reads it.
        """
        seed = seed_of_environment()
        if seed is not None:
            self.backend.device.seed(seed)

    def get_device_stats(self, device: torch.device | str | int) -> dict[str, float]:
        """Return a fresh dictionary of the chip's statistics; DeviceStatsMonitor adds to it."""
        import torch

        index = device if isinstance(device, int) else torch.device(device).index or 0
        return dict(self.backend.device.memory_stats(index))

    def teardown(self) -> None:
        """Give the memory back that the chip keeps and nobody uses."""
        self.backend.device.empty_cache()


@cache
def _class_for(combined: Any, backend: str) -> Any:
    attributes = {"backend_name": backend, "__module__": combined.__module__}
    return type(f"Accelerator({backend!r})", (combined,), attributes)


LARGEST_SEED = 2**32 - 1
"""The largest seed that ``seed_everything`` takes."""


def seed_of_environment() -> int | None:
    """Return the seed that ``seed_everything`` has left for this process; None where what stands there is no seed."""
    try:
        seed = int(os.environ.get("PL_GLOBAL_SEED", ""))
    except ValueError:
        return None
    return seed if 0 <= seed <= LARGEST_SEED else None


def load_with_hardware(name: str) -> Backend:
    """Return backend ``name``, its hardware found and its software loaded, for a run that asked for it by name.

    Raises what :func:`northbridge.load` raises, and :class:`HardwareMissingError` before Lightning raises its own.
    """
    backend = get(name)
    if detect(backend) < 1:
        package = backend.bridge.package
        if package is not None and not is_installed(package):
            raise SoftwareMissingError(
                f"accelerator={name!r}: its software {package!r} is not installed. Fix: install the vendor's package"
                + (f", or set NORTHBRIDGE_SIMULATE={name}" if is_simulable(name) else ""),
                backend=name,
            )
        missing = missing_software(backend)
        if missing is not None:
            raise SoftwareMissingError(missing, backend=name)
        raise HardwareMissingError(
            f"accelerator={name!r}: no hardware. Fix: see `northbridge list`",
            backend=name,
        )
    return load(backend)


def is_ours(accelerator: object) -> bool:
    """Whether ``accelerator`` is one of Northbridge's, of any namespace."""
    return is_of_ours(type(accelerator))


def is_of_ours(cls: type | None) -> bool:
    """Whether ``cls`` is the class of one of Northbridge's accelerators, of any namespace."""
    return bool(getattr(cls, "backend_name", ""))


announced: set[str] = set()
"""The simulated chips that the user of this job was told of; a spawned rank is given its parent's."""


def announce_simulation(backend: Backend) -> None:
    """Say once a job, on rank 0 (the caller sees to that), that a chip is simulated."""
    if backend.capabilities.simulated and backend.name not in announced:
        announced.add(backend.name)
        logger.warning(
            "%s is a simulated chip: it uses the host's memory and CPU. Numbers are the CPU's; its speed says"
            " nothing about a real chip.",
            backend.name,
        )
