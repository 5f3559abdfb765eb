"""The CPU as a backend: for jobs that train on chips and on the CPU, with ``strategy="ddp_mixed"``."""

from __future__ import annotations

from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.bridge import Bridge
from northbridge.device import Device
from northbridge.host_collective.collective import HostCollective
from northbridge.lightning.accelerators.device_indices import MOST_PROCESSES, parse_devices


class CPUDevice(Device):
    """The CPU, which torch knows by one name in every process."""

    type = "cpu"

    def count(self) -> int:
        """Return 1."""
        return 1

    def root(self, index: int) -> torch.device:
        """Return the CPU."""
        return torch.device("cpu")

    def current_index(self) -> int:
        """Return 0: ``torch.cpu.current_device()`` is not a number."""
        return 0

    def seed(self, seed: int) -> None:
        """Do nothing: ``seed_everything`` has seeded it."""

    def random_state(self) -> torch.Tensor:
        """Return the state of torch's generator."""
        return torch.get_rng_state()

    def set_random_state(self, state: torch.Tensor) -> None:
        """Restore a state of torch's generator."""
        torch.set_rng_state(state)


class CPUBridge(Bridge):
    """Nothing to load."""

    def load(self) -> None:
        """Do nothing: torch brings it."""

    def detect(self) -> int:
        """Return 1."""
        return 1


CPU = Backend("cpu", CPUDevice(), HostCollective(), CPUBridge())
"""The CPU. Only a job of ``strategy="ddp_mixed"`` declares it; elsewhere ``accelerator="cpu"`` is Lightning's."""


class CPUQuestions:
    """Lightning's questions about the CPU, each of whose devices is a process."""

    @classmethod
    def auto_device_count(cls) -> int:
        """Return 1, as Lightning does."""
        return 1

    @classmethod
    def parse_devices(cls, devices: Any) -> list[int]:
        """Return the indices that ``devices=`` asks for. Raises :class:`northbridge.DevicesError`."""
        return parse_devices(1 if devices in (-1, "-1") else devices, count=MOST_PROCESSES, name=CPU.name)
