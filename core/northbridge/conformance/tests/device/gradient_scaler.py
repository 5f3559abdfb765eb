"""The scale by which gradients in float16 are kept from vanishing, and what ends in infinity by it."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from northbridge.conformance.tests.device.one_device import OneDevice, gradient_of, refuse_without

SCALE = 1024.0


class GradientScaling(OneDevice):
    """A scaler divides gradients by its scale, and takes no step where one number of them is not finite."""

    claims = ("float16",)
    advice: ClassVar[str] = (
        "torch's GradScaler calls _amp_foreach_non_finite_check_and_unscale_ and _amp_update_scale_ of your torch"
        " plugin: the first has to look at every number of every gradient."
    )

    @pytest.fixture(autouse=True)
    def float16(self, backend: str) -> None:
        """Who denies float16 need not scale gradients, and may all the same: that is no float16."""
        refuse_without(backend, "float16")

    def test_gradients_are_divided_by_the_scale(self, device: torch.device) -> None:
        parameters = step(device, [torch.full((3,), SCALE * each) for each in (1.0, 2.0, 3.0)])

        assert [each.tolist() for each in parameters] == [[-1.0] * 3, [-2.0] * 3, [-3.0] * 3]

    @pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
    @pytest.mark.parametrize("gradient", [0, 1, 2], ids=["the first", "one between", "the last"])
    def test_one_number_that_is_not_finite_is_enough(self, device: torch.device, gradient: int, number: float) -> None:
        gradients = [torch.ones(1025) for _ in range(3)]
        gradients[gradient][gradient * 512] = number

        parameters = step(device, gradients, halved=True)

        assert [each.abs().max().item() for each in parameters] == [0.0] * 3

    def test_gradients_that_are_unscaled_can_be_clipped(self, device: torch.device) -> None:
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

    def test_the_scale_grows_after_as_many_steps_as_are_said(self, device: torch.device) -> None:
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

        # What is not finite halves it, and the count begins anew.
        assert scales == [1.0, 0.5, 0.5, 1.0, 1.0]
        assert parameter.tolist() == [-4.0] * 3


def step(device: torch.device, gradients: list[Tensor], *, halved: bool = False) -> list[Tensor]:
    """Return what a step of SGD, scaled, makes of zeros by ``gradients``; the scale is ``halved`` after it, or kept."""
    scaler = torch.amp.GradScaler(device.type, init_scale=SCALE, growth_interval=10)
    parameters = [nn.Parameter(torch.zeros_like(each).to(device)) for each in gradients]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    scaler.scale(torch.ones(1, device=device))  # which makes the scale
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.to(device)

    scaler.step(optimizer)
    scaler.update()

    assert scaler.is_enabled()
    assert scaler.get_scale() == SCALE / (2 if halved else 1)
    return [each.detach().cpu() for each in parameters]
