"""The functions of ``torch.hpu.random``: there is one generator, that of device 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated.devices import _get_device_index

default_generators: list[torch.Generator] = []
"""The generator of device 0, in a list; the vendor's import puts it there."""

RandomDevice = torch.device | str | int


def get_rng_state(device: RandomDevice = "hpu") -> torch.Tensor:
    """Return the state of the generator. A device without an index acquires the card."""
    _check_first(device, "hpu get_rng_state supports only device 0")
    return chip.get_rng_state(0)


def set_rng_state(new_state: torch.Tensor, device: RandomDevice = "hpu") -> None:
    """Set the state of the generator. A device without an index acquires the card."""
    _check_first(device, "hpu set_rng_state supports only device 0")
    chip.set_rng_state(new_state, 0)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the state of the only generator, in a list."""
    return [get_rng_state(0)]


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Set the state of the only generator, from a list of one state."""
    assert len(new_states) == 1, f"there is one generator, but {len(new_states)} states"
    set_rng_state(new_states[0], 0)


def manual_seed(seed: int) -> torch.Generator:
    """Seed the generator, and return it."""
    return chip.default_generator(0).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every generator: there is one."""
    manual_seed(seed)


def seed() -> None:
    """Seed the generator with a random number."""
    chip.seed()


def seed_all() -> None:
    """Seed every generator with a random number."""
    seed()


def initial_seed() -> int:
    """Return the seed of the generator."""
    return chip.initial_seed()


def _check_first(device: RandomDevice, otherwise: str) -> None:
    if _get_device_index(device, True) != 0:
        raise RuntimeError(otherwise)
