"""Seeds and states of random generators, including the card's."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

import torch

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated import generators
from northbridge_hpu.simulated.record import put

_manual_seed = torch.manual_seed
_seed = torch.seed
_fork_rng = torch.random.fork_rng


def replace() -> None:
    """Replace ``torch.manual_seed``, ``torch.seed`` and ``torch.random.fork_rng``."""
    put("torch.manual_seed", manual_seed)
    put("torch.seed", seed)
    put("torch.random.fork_rng", fork_rng)


def manual_seed(seed: int) -> torch.Generator:
    """Seed the host's generator and the card's, and return the host's."""
    generator = _manual_seed(seed)
    _seed_card(seed)
    return generator


def seed() -> int:
    """Seed the host's generator with a random number, the card's with the same, and return it."""
    chosen = _seed()
    _seed_card(chosen)
    return chosen


def _seed_card(seed: int) -> None:
    # torch seeds every forked worker of a loader. The vendor's generator is on the host, and allows it.
    if not chip._is_in_bad_fork():
        generators.manual_seed(seed)


def fork_rng(
    devices: Iterable[int] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "hpu",
) -> AbstractContextManager[None]:
    """Fork the generators as torch does, by default those of all cards, although only that of card 0 can be read."""
    return _fork_rng(devices, enabled, _caller, _devices_kw, device_type)
