"""Stand in for the torch plugin that the vendor Acme would ship, where there is no Acme.

Importing it does what importing a vendor's plugin does: torch learns the device ``acme``, the module ``torch.acme``
and the process group ``accl``. It has two cards, and it has names only. There are no kernels and no memory behind
them: ``torch.device("acme", 1)`` is real, ``torch.ones(1, device="acme")`` raises.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import torch
from torch.distributed import Backend, ProcessGroupGloo, Store  # type: ignore[attr-defined]  # torch's

_CARDS = 2
_current = 0


def is_available() -> bool:
    return True


def device_count() -> int:
    return _CARDS


def current_device() -> int:
    return _current


def set_device(index: int) -> None:
    global _current
    if not 0 <= index < _CARDS:
        raise RuntimeError(f"acme has {_CARDS} cards; there is no card {index}")
    _current = index


def synchronize(index: int | None = None) -> None:
    """Wait for the card, which has nothing to do."""


def get_device_name(index: int | None = None) -> str:
    return f"Acme Anvil {_current if index is None else index} (a stand-in)"


def memory_stats(index: int | None = None) -> dict[str, int]:
    return {"allocated_bytes.all.current": 0}


def memory_allocated(index: int | None = None) -> int:
    return 0


seeds: list[int] = []


def manual_seed_all(seed: int) -> None:
    """Note the seed: the cards draw no numbers."""
    seeds.append(seed)


def get_rng_state() -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8)


def set_rng_state(state: torch.Tensor) -> None:
    """Restore nothing."""


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16]


def _make_accl(store: Store, rank: int, size: int, timeout: timedelta) -> ProcessGroupGloo:
    return ProcessGroupGloo(store, rank, size, timeout)


torch.utils.rename_privateuse1_backend("acme")  # type: ignore[attr-defined]  # torch's
torch._register_device_module("acme", sys.modules[__name__])  # type: ignore[no-untyped-call]  # torch's
Backend.register_backend("accl", _make_accl, devices=["acme"])
