"""The generators, one for each device, as in `torch.cuda.random`."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from northbridge_cpu_sim.module import chip
from northbridge_cpu_sim.module.chip import DeviceLike
from northbridge_cpu_sim.module.devices import within_reach


def default_generator(device: DeviceLike = None) -> torch.Generator:
    """Return a device's generator."""
    generator: torch.Generator = chip.extension().default_generator(chip.index(device))
    return generator


def default_generators() -> tuple[torch.Generator, ...]:
    """Return the generators of all devices."""
    return tuple(default_generator(index) for index in within_reach())


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """Return the state of a device's generator, as a CPU tensor of bytes."""
    return default_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all devices' generators."""
    return [get_rng_state(index) for index in within_reach()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Restore a device's generator to a state from `get_rng_state`."""
    default_generator(device).set_state(new_state.cpu())


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restore all devices' generators to states from `get_rng_state_all`."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed all devices' generators with the same number."""
    for index in within_reach():
        default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's generator with a random number."""
    default_generator().seed()


def seed_all() -> None:
    """Seed all devices' generators with the same random number."""
    manual_seed_all(default_generator().seed())


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return default_generator().initial_seed()
