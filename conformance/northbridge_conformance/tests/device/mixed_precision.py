"""Mixed precision, with torch's autocast and its gradient scaler on a device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import (
    OneDevice,
    gradient_of,
    reject_without,
    rejected_where_denied,
)

DTYPES = ("bfloat16", "float16")

IN_FLOAT32: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "pow": partial(torch.pow, exponent=3),
}
"""Operations that overflow soon and are computed in float32. For softmax and sums, vendors have their own lists."""


class Autocast(OneDevice):
    """Inside autocast, products are computed in exactly the requested dtype."""

    advice = (
        "Look at Device.autocast_dtypes(), and at the autocast kernels that your torch plugin registers: torch turns"
        " autocast off, with a warning, for a dtype that get_amp_supported_dtype() of torch.<type> does not list."
    )

    @pytest.mark.parametrize("dtype", DTYPES)
    @shows("{dtype}")
    def test_matmul_computes_in_the_dtype(
        self, backend: str, chip: northbridge.Device, device: torch.device, dtype: str
    ) -> None:
        kind = getattr(torch, dtype)
        step = torch.finfo(kind).eps
        numbers = torch.tensor([[1 + step, 1 + step / 4], [300.0, 2 / step]], device=device)

        with rejected_where_denied(backend, dtype):
            assert kind in chip.autocast_dtypes()
            with torch.autocast(chip.type, dtype=kind):
                product = numbers @ torch.eye(2, device=device)
                sums = torch.tensor([[2 / step, 1.0]], device=device) @ torch.ones(2, 1, device=device)
            assert product.dtype == kind
            assert torch.equal(product.cpu(), numbers.cpu().to(kind))
            assert sums.item() == 2 / step

    @shows("float16")
    def test_float16_matmul_overflows(self, backend: str, device: torch.device) -> None:
        with rejected_where_denied(backend, "float16"):
            with torch.autocast(device.type, dtype=torch.float16):
                product = torch.full((1, 1), 300.0, device=device) @ torch.full((1, 1), 300.0, device=device)
            assert product.item() == float("inf")

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", IN_FLOAT32)
    @shows("{dtype}")
    def test_exp_and_pow_compute_in_float32(self, backend: str, device: torch.device, name: str, dtype: str) -> None:
        kind, operation = getattr(torch, dtype), IN_FLOAT32[name]
        numbers = torch.tensor([[0.25, 0.5], [0.75, 1.25]], device=device)

        with rejected_where_denied(backend, dtype), torch.autocast(device.type, dtype=kind):
            product = numbers @ numbers
            found = operation(product)
            assert product.dtype == kind
            assert found.dtype == torch.float32
            # A result of eight or eleven bits is not enough, even if it is stored in float32.
            torch.testing.assert_close(found.cpu(), operation(product.cpu().float()), rtol=2e-5, atol=1e-6)

    @pytest.mark.parametrize("dtype", DTYPES)
    @shows("float64")
    def test_float64_inputs_stay_float64(self, backend: str, device: torch.device, dtype: str) -> None:
        with rejected_where_denied(backend, "float64"), torch.autocast(device.type, dtype=getattr(torch, dtype)):
            numbers = torch.full((2, 2), 1 + 2.0**-40, dtype=torch.float64, device=device)
            for found in (
                numbers @ torch.eye(2, dtype=torch.float64, device=device),
                nn.functional.linear(numbers, numbers),
            ):
                assert found.dtype == torch.float64
                assert found.max().item() > 1

    @pytest.mark.parametrize("dtype", DTYPES)
    @shows("{dtype}")
    def test_autocast_ends_with_its_block(self, backend: str, device: torch.device, dtype: str) -> None:
        kind = getattr(torch, dtype)
        numbers = torch.ones(2, 2, device=device)

        with rejected_where_denied(backend, dtype), torch.autocast(device.type, dtype=kind):
            with torch.autocast(device.type, enabled=False):
                assert (numbers @ numbers).dtype == torch.float32
            assert torch.is_autocast_enabled(device.type)
            assert torch.get_autocast_dtype(device.type) == kind
            assert (numbers @ numbers).dtype == kind
        assert (numbers @ numbers).dtype == torch.float32

    @shows("bfloat16", "float16")
    def test_nested_autocast_uses_its_own_dtype(self, backend: str, device: torch.device) -> None:
        numbers = torch.ones(2, 2, device=device)
        found: list[torch.dtype] = []

        with rejected_where_denied(backend, "bfloat16"), rejected_where_denied(backend, "float16"):
            for outer, inner in ((torch.bfloat16, torch.float16), (torch.float16, torch.bfloat16)):
                with torch.autocast(device.type, dtype=outer):
                    with torch.autocast(device.type, dtype=inner):
                        found.append((numbers @ numbers).dtype)
                    found.append((numbers @ numbers).dtype)
            assert found == [torch.float16, torch.bfloat16, torch.bfloat16, torch.float16]

    @pytest.mark.parametrize("dtype", DTYPES)
    @shows("{dtype}", "autograd")
    def test_layers_train_in_the_dtype(self, backend: str, device: torch.device, dtype: str) -> None:
        kind = getattr(torch, dtype)
        torch.manual_seed(0)
        layer, given = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(4, 7)
        moved = copy.deepcopy(layer).to(device)
        seen: list[torch.dtype] = []
        moved[2].register_forward_hook(lambda _layer, _given, result: seen.append(result.dtype))

        layer(given).square().mean().backward()
        with rejected_where_denied(backend, dtype):
            with torch.autocast(device.type, dtype=kind):
                loss = moved(given.to(device)).float().square().mean()
            loss.backward()

            assert seen == [kind]
            for mine, cpus in zip(moved.parameters(), layer.parameters(), strict=True):
                assert mine.grad is not None
                assert cpus.grad is not None
                assert mine.grad.dtype == torch.float32
                torch.testing.assert_close(mine.grad.cpu(), cpus.grad, rtol=0.1, atol=0.05)
                assert not torch.equal(mine.grad.cpu(), cpus.grad), "to the bit what float32 gives"

    def test_autocast_dtypes_are_distinct_torch_dtypes(self, chip: northbridge.Device, device: torch.device) -> None:
        dtypes = chip.autocast_dtypes()

        assert all(isinstance(dtype, torch.dtype) for dtype in dtypes)
        assert len(set(dtypes)) == len(dtypes)


SCALE = 1024.0


class GradientScaling(OneDevice):
    """A scaler divides gradients by its scale, and skips the step if any element is not finite."""

    claims: tuple[str, ...] = ("float16",)
    advice = (
        "torch's GradScaler calls _amp_foreach_non_finite_check_and_unscale_ and _amp_update_scale_ of your torch"
        " plugin: the first has to look at every number of every gradient."
    )

    @pytest.fixture(autouse=True)
    def float16(self, backend: str) -> None:
        """Raise :class:`UnsupportedError` if the chip denies float16: it may scale gradients all the same."""
        reject_without(backend, "float16")

    def test_gradients_are_divided_by_the_scale(self, device: torch.device) -> None:
        parameters = step(device, [torch.full((3,), SCALE * each) for each in (1.0, 2.0, 3.0)])

        assert [each.tolist() for each in parameters] == [[-1.0] * 3, [-2.0] * 3, [-3.0] * 3]

    @pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
    @pytest.mark.parametrize("gradient", [0, 1, 2], ids=["the first", "one between", "the last"])
    def test_one_non_finite_element_skips_the_step(self, device: torch.device, gradient: int, number: float) -> None:
        gradients = [torch.ones(1025) for _ in range(3)]
        gradients[gradient][gradient * 512] = number

        parameters = step(device, gradients, halved=True)

        assert [each.abs().max().item() for each in parameters] == [0.0] * 3

    def test_unscaled_gradients_can_be_clipped(self, device: torch.device) -> None:
        scaler = torch.amp.GradScaler(device.type, init_scale=SCALE)
        parameter = nn.Parameter(torch.zeros(3, device=device))
        optimizer = torch.optim.SGD([parameter], lr=1.0)

        torch.autograd.backward(scaler.scale((parameter * torch.tensor([0.5, 3.0, -4.0], device=device)).sum()))
        scaler.unscale_(optimizer)

        assert gradient_of(parameter).tolist() == [0.5, 3.0, -4.0]
        with pytest.raises(RuntimeError, match="already been called"):
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_value_([parameter], 1.0)
        scaler.step(optimizer)
        assert parameter.tolist() == [-0.5, -1.0, 1.0]

    def test_scale_grows_after_the_growth_interval(self, device: torch.device) -> None:
        scaler = torch.amp.GradScaler(device.type, init_scale=SCALE, growth_interval=2)
        parameter = nn.Parameter(torch.zeros(3, device=device))
        optimizer = torch.optim.SGD([parameter], lr=1.0)
        scales = []

        for number in (1.0, float("inf"), 1.0, 1.0, 1.0):
            optimizer.zero_grad()
            torch.autograd.backward(scaler.scale((parameter * number).sum()))
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale() / SCALE)

        # A non-finite gradient halves the scale and resets the count.
        assert scales == [1.0, 0.5, 0.5, 1.0, 1.0]
        assert parameter.tolist() == [-4.0] * 3


def step(device: torch.device, gradients: list[Tensor], *, halved: bool = False) -> list[Tensor]:
    """Return zeros after a scaled step of SGD by ``gradients``; check that the scale is kept, or ``halved``."""
    scaler = torch.amp.GradScaler(device.type, init_scale=SCALE, growth_interval=10)
    parameters = [nn.Parameter(torch.zeros_like(each).to(device)) for each in gradients]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    scaler.scale(torch.ones(1, device=device))  # initializes the scale
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.to(device)

    scaler.step(optimizer)
    scaler.update()

    assert scaler.is_enabled()
    assert scaler.get_scale() == SCALE / (2 if halved else 1)
    return [each.detach().cpu() for each in parameters]
