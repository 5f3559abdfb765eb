"""A backend whose chip is the CPU itself, to measure our strategy apart from any chip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    import torch


class HostDevice(northbridge.Device):
    """The CPU, which torch knows by one name, and whose module has no memory or seed to speak of."""

    type = "cpu"

    def count(self) -> int:
        return 1

    def root(self, index: int) -> torch.device:  # noqa: ARG002 - there is one CPU, whatever its index
        import torch

        return torch.device("cpu")

    def current_index(self) -> int:
        return 0  # torch.cpu.current_device() returns "cpu"

    def seed(self, seed: int) -> None:
        """Nothing: ``seed_everything`` has seeded it."""

    def empty_cache(self) -> None:
        """Nothing: it has none."""

    def random_state(self) -> torch.Tensor:
        import torch

        return torch.get_rng_state()

    def set_random_state(self, state: torch.Tensor) -> None:
        import torch

        torch.set_rng_state(state)


class HostCollective(northbridge.Collective):
    name = "gloo"


class HostBridge(northbridge.Bridge):
    def load(self) -> None:
        """Nothing: torch brings it."""

    def detect(self) -> int:
        return 1


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return northbridge.Backend("host", HostDevice(), HostCollective(), HostBridge())
