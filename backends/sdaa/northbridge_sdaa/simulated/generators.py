"""The functions of ``torch.sdaa`` about random numbers whose parameters are not the simulated chip's."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from northbridge_cpu_sim import module as chip
from northbridge_sdaa.simulated import machine


class Generators(Sequence[torch.Generator]):
    """One generator a device, each made when it is asked for."""

    def __getitem__(self, index: int) -> torch.Generator:  # type: ignore[override] # no slices
        return chip.default_generator(index)

    def __len__(self) -> int:
        return len(machine.visible())


def get_rng_state(device: torch.device | str | int = "sdaa") -> torch.Tensor:
    """Return the state of a device's generator; what has no index is the current device."""
    return chip.get_rng_state(device)


def set_rng_state(new_state: torch.Tensor, device: torch.device | str | int = "sdaa") -> None:
    """Set the state of a device's generator."""
    chip.set_rng_state(new_state, device)
