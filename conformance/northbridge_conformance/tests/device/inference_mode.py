"""Computations under torch.inference_mode, as in Lightning's evaluation and prediction."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of, rejected_where_denied

_INSTEAD = "a Trainer evaluates and predicts under torch.no_grad"


def _layers(given: Tensor) -> Tensor:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(16, 3)
    )
    found: Tensor = net.eval().to(given.device)(given.reshape(1, 1, 6, 6))
    return found


def _views(given: Tensor) -> Tensor:
    turned = given.view(6, 6).t()[1:, ::2]
    return torch.cat([turned.reshape(-1), given.view(4, 9).chunk(3, 1)[1].flatten(), given[None].expand(2, 36)[1]])


def _in_place(given: Tensor) -> Tensor:
    whole = given.clone()
    whole.view(6, 6)[2:4].mul_(3)
    whole[5:].add_(1)
    whole[:3] = 7
    return whole.relu_()


def _metric(given: Tensor) -> Tensor:
    hits, seen = torch.zeros(3, device=given.device), torch.zeros((), device=given.device)
    for rows in given.view(3, 12):
        hits += torch.nn.functional.one_hot(rows.view(4, 3).argmax(1), 3).sum(0)
        seen += rows.numel()
    return torch.cat([hits / seen, given.view(12, 3).softmax(1).mean(0)])


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "a model": _layers,
    "views": _views,
    "in place": _in_place,
    "a metric": _metric,
}


class InferenceMode(OneDevice):
    """The chip computes under torch.inference_mode as it does under torch.no_grad."""

    claims: tuple[str, ...] = ("inference_mode",)
    advice = (
        "torch takes other kernels under inference_mode, which keep no track of views. Where they are missing, claim"
        ' inference_mode=northbridge.no("the reason").'
    )

    @pytest.fixture(autouse=True)
    def tried(self, backend: str, device: torch.device) -> None:
        """Raise :class:`UnsupportedError` if the chip denies it and some way fails: other ways may work there."""
        if northbridge.get(backend).present_capabilities().inference_mode.denied:
            with rejected_where_denied(backend, "inference_mode", _INSTEAD):
                for way in WAYS:
                    _compare(way, device)

    @pytest.mark.parametrize("way", WAYS)
    def test_results_match_no_grad(self, device: torch.device, way: str) -> None:
        _compare(way, device)

    def test_clone_of_an_inference_tensor_works_with_autograd(self, device: torch.device) -> None:
        weight = torch.ones(2, device=device, requires_grad=True)

        with torch.inference_mode():
            given = (torch.ones(2, device=device) * 3).view(2, 1)
        torch.autograd.backward((weight * given.clone().flatten()).sum())

        assert gradient_of(weight).tolist() == [3, 3]


def _compare(way: str, device: torch.device) -> None:
    given = torch.linspace(-2, 2, 36)
    with torch.no_grad():
        expected = WAYS[way](given.to(device))

    with torch.inference_mode():
        found = WAYS[way](given.to(device))

        assert found.device == device
        assert found.is_inference()
        assert torch.allclose(found.cpu(), expected.cpu(), rtol=1e-4, atol=1e-5)
