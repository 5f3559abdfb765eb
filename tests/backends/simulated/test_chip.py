"""A simulated chip beside the CPU: its layers, and what Lightning exports of a model."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from tests.backends.exports import Exports, pytestmark as pytestmark
from tests.backends.simulation.chip import SimChip
from torch import Tensor


def derive_again(device: str) -> list[Tensor]:
    """Return first, second and third derivatives of sums with several parts, added up in the order of their nodes."""
    x = (torch.arange(1.0, 41.0) / 7).to(device).requires_grad_()
    (first,) = torch.autograd.grad((x.sin() * x.exp() * x.pow(2.2)).sum(), x, create_graph=True)
    parts = (first * x.cos()).sum() + (first.tanh() * first).sum() + (x.sigmoid() * first * x).sum()
    (second,) = torch.autograd.grad(parts, x, create_graph=True)
    parts = (second.tanh() * first).sum() + (second * x.cos()).sum()
    return [each.detach().cpu() for each in (first, second, *torch.autograd.grad(parts, x))]


class TestLayers:
    def test_derivatives_of_derivatives_are_the_cpus(self, sim: SimChip, loaded: ModuleType) -> None:
        """A thread of the device has made some of the nodes, and the test's own the others."""
        assert loaded.is_available()
        for found, expected in zip(derive_again(sim.name), derive_again("cpu"), strict=True):
            assert torch.equal(found, expected)

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
    @pytest.mark.parametrize("norm", [False, True])
    def test_padded_sequences_are_encoded_as_on_the_cpu(self, sim: SimChip, loaded: ModuleType, norm: bool) -> None:
        from tests.core.discovery.test_torch_changes import assert_encodes_padding

        assert_encodes_padding(sim.name, norm)
        assert loaded.is_available()

    def test_averages_with_counters(self, sim: SimChip, loaded: ModuleType) -> None:
        from tests.core.discovery.test_torch_changes import assert_averages

        assert_averages(sim.name)
        assert loaded.is_available()


class TestExports(Exports):
    @pytest.fixture
    def device(self, sim: SimChip, loaded: ModuleType) -> torch.device:
        assert loaded.is_available()
        return torch.device(sim.name)
