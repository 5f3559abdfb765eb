"""How the numbers are spread that the chip draws."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import northbridge
from northbridge.conformance.tests.device.one_device import OneDevice, gradient_of

MANY = 20000


class Distributions(OneDevice):
    """Numbers are spread as torch says, and dropout drops its share."""

    claims = ("random_numbers",)
    advice: ClassVar[str] = (
        "Look at the kernels of your torch plugin that draw: which numbers they make of the generator's bits, and"
        " whether each is drawn once."
    )

    def test_numbers_are_spread_as_they_should_be(self, chip: northbridge.Device, device: torch.device) -> None:
        chip.seed(1)
        flat, bell = torch.rand(MANY, device=device).cpu(), torch.randn(MANY, device=device).cpu()
        whole = torch.randint(-2, 3, (MANY,), device=device).cpu()
        order = torch.randperm(1000, device=device).cpu()

        assert 0 <= flat.min() < 0.01
        assert 0.99 < flat.max() < 1
        assert abs(flat.mean() - 0.5) < 0.02
        assert abs(bell.mean()) < 0.04
        assert abs(bell.std() - 1) < 0.04
        assert whole.add(2).bincount().tolist() == pytest.approx([MANY / 5] * 5, rel=0.1)
        assert order.sort().values.tolist() == list(range(1000))
        assert order.tolist() != list(range(1000))

    def test_numbers_are_spread_as_they_are_asked_to_be(self, chip: northbridge.Device, device: torch.device) -> None:
        chip.seed(1)
        weights = torch.tensor([0.0, 1.0, 3.0, 6.0], device=device)
        chances = torch.tensor([0.0, 0.2, 0.9, 1.0], device=device).repeat(MANY)
        drawn = torch.multinomial(weights, MANY, replacement=True).cpu()
        tossed = torch.bernoulli(chances).cpu().view(MANY, 4)
        flat = torch.empty(MANY, device=device).uniform_(-3, 5).cpu()
        bell = torch.empty(MANY, device=device).normal_(3, 2).cpu()
        waiting = torch.empty(MANY, device=device).exponential_(4).cpu()

        assert drawn.bincount(minlength=4).tolist() == pytest.approx(
            [0, MANY / 10, 3 * MANY / 10, 6 * MANY / 10], rel=0.1
        )
        assert torch.multinomial(weights, 3).sort().values.tolist() == [1, 2, 3]
        assert tossed.mean(0).tolist() == pytest.approx([0, 0.2, 0.9, 1], abs=0.02)
        assert -3 <= flat.min() < -2.9
        assert 4.9 < flat.max() <= 5
        assert flat.mean().item() == pytest.approx(1, abs=0.1)
        assert [bell.mean().item(), bell.std().item()] == pytest.approx([3, 2], abs=0.1)
        assert waiting.min() >= 0
        assert [waiting.mean().item(), waiting.std().item()] == pytest.approx([0.25, 0.25], abs=0.02)

    @pytest.mark.parametrize("share", [0.1, 0.5])
    def test_dropout_drops_its_share_and_scales_the_rest(
        self, chip: northbridge.Device, device: torch.device, share: float
    ) -> None:
        chip.seed(1)
        given = torch.ones(MANY, device=device, requires_grad=True)

        found = nn.functional.dropout(given, share)
        torch.autograd.backward(found.sum())

        kept = found.detach().cpu() != 0
        assert kept.float().mean().item() == pytest.approx(1 - share, abs=0.02)
        assert found.detach().cpu()[kept].tolist() == pytest.approx([1 / (1 - share)] * int(kept.sum()))
        assert torch.equal(gradient_of(given).cpu(), found.detach().cpu())
        assert torch.equal(nn.functional.dropout(given, share, training=False).cpu(), given.cpu())

    def test_dropout_that_is_computed_anew_drops_the_same(self, device: torch.device) -> None:
        given = torch.ones(MANY, device=device, requires_grad=True)

        found: Any = checkpoint(lambda numbers: nn.functional.dropout(numbers) * numbers, given, use_reentrant=False)
        torch.autograd.backward(found.sum())

        assert torch.equal(gradient_of(given).cpu(), 2 * found.detach().cpu())
