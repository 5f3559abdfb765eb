"""What is asked of the class of an accelerator, by Lightning and by users, before there is an instance."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

from northbridge.discovery.declared import get
from northbridge.discovery.loaded import load
from northbridge.discovery.present import detect
from northbridge.errors import NorthbridgeError
from northbridge.lightning.accelerators.device_indices import parse_devices
from northbridge.process_record import note

if TYPE_CHECKING:
    import torch


class AcceleratorQuestions:
    """Answer for the backend ``backend_name``; no answer takes a card."""

    backend_name: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """Return what ``accelerator=`` calls it."""
        return cls.backend_name

    @classmethod
    def is_available(cls) -> bool:
        """Whether this machine has such a device. Where that cannot be found out, the record says why.

        Lightning asks every registered accelerator on its way to an error of its own: this must not raise.
        """
        try:
            return detect(get(cls.backend_name)) > 0
        except NorthbridgeError as error:
            note(cls.backend_name, "not available", str(error), problem=True)
            return False

    @classmethod
    def auto_device_count(cls) -> int:
        """Return how many devices ``devices="auto"`` takes."""
        # Lightning takes one device in a notebook, for CUDA only: several would have to be forked.
        return 1 if hasattr(sys, "ps1") else detect(get(cls.backend_name))

    @classmethod
    def parse_devices(cls, devices: Any) -> list[int]:
        """Return the indices that ``devices=`` asks for. Raises :class:`northbridge.DevicesError`."""
        return parse_devices(devices, count=detect(get(cls.backend_name)), name=cls.backend_name)

    @classmethod
    def get_parallel_devices(cls, devices: list[int]) -> list[torch.device]:
        """Return the devices of these indices; the backend's software is loaded for that."""
        import torch

        kind = load(get(cls.backend_name)).device.type
        return [torch.device(kind, index) for index in devices]
