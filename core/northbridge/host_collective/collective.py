"""The collective that a plugin names if its chip has no communication library."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from northbridge.collective import Collective
from northbridge.errors import UnsupportedError

_FIRST_TORCH = (2, 8)  # from here on torch keeps the work that a Python group returns


class HostCollective(Collective):
    """Gloo over copies in the host's memory, for any device type.

    ``northbridge.Backend("acme", AcmeDevice(), northbridge.HostCollective(), AcmeBridge())`` is all that a plugin
    writes. Each tensor is copied once to the host and once back; the copies are pinned if the chip claims
    ``pinned_memory``. Training on several devices is right, and slower than with a library of the vendor's.
    """

    name = "host"
    averages = False  # FSDP2 then sums and divides, also with a Gloo that has no average
    exact_dtypes: ClassVar[frozenset[str] | None] = frozenset(
        {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8"}
    )

    def register(self) -> None:
        """Register the process group with torch. Raises :class:`UnsupportedError` if this torch is too old."""
        import torch
        from torch.distributed import Backend

        if tuple(map(int, torch.__version__.split(".")[:2])) < _FIRST_TORCH:
            first = ".".join(map(str, _FIRST_TORCH))
            raise UnsupportedError(
                f"HostCollective needs torch {first}, found {torch.__version__}. Fix: upgrade torch",
                capability="collective",
            )
        from northbridge.host_collective.process_group import HostGroup, reject_split_group

        if self.name not in Backend.backend_list:
            make = partial(HostGroup, pinned=self.pins_memory)
            # The CPU first: torch names the store by it, in which ranks on several vendors' chips meet.
            Backend.register_backend(self.name, make, devices=list(dict.fromkeys(["cpu", self.device_type])))
            reject_split_group()
