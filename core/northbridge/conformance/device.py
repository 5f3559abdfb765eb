"""One device, as torch has it."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import northbridge
from northbridge.conformance.suite import Suite

DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")


class Device(Suite):
    """What a user of torch may expect from a device, in this process."""

    @pytest.fixture
    def chip(self, backend: str) -> northbridge.Device:
        return northbridge.load(backend).device

    @pytest.fixture
    def index(self, chip: northbridge.Device) -> int:
        """The last device: where a process keeps its card, the ranks that the suite starts find the first ones free."""
        return chip.count() - 1

    @pytest.fixture
    def device(self, backend: str, chip: northbridge.Device, index: int) -> torch.device:
        northbridge.get(backend).bridge.prepare_rank(index=index, local_rank=0, world_size=1)
        chip.select(index)
        return chip.root(index)

    @pytest.fixture
    def other(self, chip: northbridge.Device, device: torch.device) -> torch.device:
        if chip.root(0) == device:
            pytest.skip(f"a process has one {chip.type} device here")
        return chip.root(0)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_a_tensor_comes_back_to_the_bit(self, device: torch.device, dtype: str) -> None:
        numbers = torch.arange(-8, 8).view(4, 4).to(getattr(torch, dtype))

        there = numbers.to(device)

        assert there.device == device
        assert there.dtype == numbers.dtype
        assert torch.equal(there.cpu(), numbers)

    def test_views_of_any_stride_come_back(self, device: torch.device) -> None:
        numbers = torch.arange(24).view(2, 3, 4)

        there = numbers.to(device)

        assert torch.equal(there.transpose(0, 2)[1:, ::2].cpu(), numbers.transpose(0, 2)[1:, ::2])
        assert torch.equal(numbers.transpose(0, 1).to(device).cpu(), numbers.transpose(0, 1))

    def test_a_view_shares_memory(self, device: torch.device) -> None:
        whole = torch.zeros(2, 3, device=device)

        whole[1].add_(1)
        whole.t()[2].mul_(5)

        assert whole.tolist() == [[0, 0, 0], [1, 1, 5]]

    def test_empty_tensors_and_scalars(self, device: torch.device) -> None:
        assert torch.zeros(0, 3, device=device).sum().item() == 0
        assert torch.tensor(2.5, device=device).item() == 2.5

    def test_indexing(self, device: torch.device) -> None:
        numbers = torch.arange(6, device=device)

        numbers[numbers > 3] = -1
        numbers[torch.tensor([0, 1], device=device)] = 9

        assert numbers.tolist() == [9, 9, 2, 3, -1, -1]

    def test_forward_and_backward_are_near_the_cpus(self, device: torch.device) -> None:
        torch.manual_seed(0)
        layer, given = nn.Sequential(nn.Linear(7, 5), nn.GELU(), nn.LayerNorm(5)), torch.randn(3, 7)
        twin = copy.deepcopy(layer).to(device)

        layer(given).square().mean().backward()
        twin(given.to(device)).square().mean().backward()

        for expected, found in zip(layer.parameters(), twin.parameters(), strict=True):
            assert expected.grad is not None
            assert found.grad is not None
            assert found.grad.device == device
            torch.testing.assert_close(found.grad.cpu(), expected.grad)

    def test_a_moved_module_keeps_its_parameters(self, device: torch.device) -> None:
        layer = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
        before = layer.weight

        layer.to(device)(torch.ones(1, 2, device=device)).sum().backward()
        start = layer.weight.detach().clone()
        optimizer.step()

        assert layer.weight is before
        assert torch.equal(layer.weight.detach(), start - 1)

    def test_a_moved_module_keeps_its_ties(self, device: torch.device) -> None:
        pair = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        pair[1].weight = pair[0].weight

        pair.to(device)
        assert pair[1].weight is pair[0].weight
        pair.cpu()
        assert pair[1].weight is pair[0].weight

    def test_an_operation_on_the_chip_and_the_cpu_raises(self, device: torch.device) -> None:
        with pytest.raises(RuntimeError, match="same device"):
            torch.add(torch.ones(2, device=device), torch.ones(2))

    def test_an_operation_on_two_devices_raises(self, device: torch.device, other: torch.device) -> None:
        with pytest.raises(RuntimeError, match="same device"):
            torch.add(torch.ones(2, device=device), torch.ones(2, device=other))

    def test_a_tensor_moves_between_devices(self, device: torch.device, other: torch.device) -> None:
        moved = torch.arange(3, device=device).to(other)

        assert moved.device == other
        assert moved.tolist() == [0, 1, 2]

    def test_a_device_that_is_not_there_raises(self, chip: northbridge.Device, device: torch.device) -> None:
        with pytest.raises(RuntimeError):
            torch.ones(1, device=torch.device(chip.type, chip.count()))

    def test_a_tensor_without_an_index_lands_on_the_current_device(
        self, chip: northbridge.Device, device: torch.device, other: torch.device
    ) -> None:
        chip.select(0)

        assert torch.ones(1, device=chip.type).device == other

    def test_one_seed_gives_one_sequence(self, chip: northbridge.Device, device: torch.device) -> None:
        chip.seed(5)
        first = torch.randn(4, device=device)
        second = torch.randn(4, device=device)
        chip.seed(5)

        assert torch.equal(torch.randn(4, device=device), first)
        assert not torch.equal(first, second)

    @pytest.mark.parametrize("draw", ["randn", "dropout"])
    def test_what_the_chip_draws_leaves_the_cpus_generator_alone(self, device: torch.device, draw: str) -> None:
        before = torch.get_rng_state()

        if draw == "randn":
            torch.randn(4, device=device)
        else:
            nn.functional.dropout(torch.ones(4, device=device))

        assert torch.equal(torch.get_rng_state(), before)

    def test_a_random_state_that_is_put_back_gives_the_same_numbers(
        self, chip: northbridge.Device, device: torch.device
    ) -> None:
        state = chip.random_state()
        first = torch.rand(4, device=chip.type)

        chip.set_random_state(state)

        assert state.device.type == "cpu"
        assert torch.equal(torch.rand(4, device=chip.type), first)

    def test_memory_is_counted(self, chip: northbridge.Device, device: torch.device) -> None:
        module: Any = chip.module
        before = module.memory_allocated(device)

        block = torch.zeros(2**20, dtype=torch.uint8, device=device)
        during = module.memory_allocated(device)
        del block

        assert during - before >= 2**20
        assert module.memory_allocated(device) == before
        assert module.max_memory_allocated(device) >= during

    def test_statistics_are_numbers(self, chip: northbridge.Device, device: torch.device, index: int) -> None:
        _held = torch.ones(1, device=device)

        statistics = chip.memory_stats(index)

        assert statistics
        assert all(isinstance(value, (int, float)) for value in statistics.values())

    def test_synchronize_and_empty_cache(self, chip: northbridge.Device, device: torch.device) -> None:
        held = torch.ones(3, device=device) * 2

        chip.synchronize()
        chip.empty_cache()

        assert held.tolist() == [2, 2, 2]

    def test_the_card_has_a_name(self, chip: northbridge.Device) -> None:
        assert chip.label(0)

    def test_autocast_lowers_a_product_and_raises_an_exponential(
        self, chip: northbridge.Device, device: torch.device
    ) -> None:
        matrix = torch.ones(2, 2, device=device)

        for dtype in chip.autocast_dtypes():
            with torch.autocast(chip.type, dtype=dtype):
                product = matrix @ matrix
                assert product.dtype == dtype
                assert torch.exp(product).dtype == torch.float32
        assert (matrix @ matrix).dtype == torch.float32

    def test_a_saved_tensor_opens_on_the_cpu_and_on_the_chip(self, device: torch.device) -> None:
        file = io.BytesIO()
        torch.save({"weight": torch.arange(3.0, device=device)}, file)

        for where in (torch.device("cpu"), device):
            file.seek(0)
            found: Tensor = torch.load(file, map_location=where, weights_only=True)["weight"]
            assert found.device == where
            assert found.tolist() == [0, 1, 2]

    def test_a_tensor_on_the_chip_is_no_array(self, device: torch.device) -> None:
        with pytest.raises(TypeError):
            torch.ones(1, device=device).numpy()

    def test_a_copy_is_a_copy(self, device: torch.device) -> None:
        original = nn.Parameter(torch.ones(2, device=device))

        twin = copy.deepcopy(original)
        with torch.no_grad():
            twin.zero_()

        assert twin.device == device
        assert original.tolist() == [1, 1]
