"""Autograd on the chip as users use it, and computations under torch.inference_mode."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of, rejected_where_denied


class Double(torch.autograd.Function):
    """A custom autograd function of a user."""

    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:
        """Return twice ``given``."""
        ctx.save_for_backward(given)
        return given * 2

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:  # torch's name
        """Return a distinctive gradient, which differs from the true one."""
        given: Tensor = ctx.saved_tensors[0]
        return grad_outputs[0] * 2 + given


class Gradients(OneDevice):
    """Gradients behave as users of autograd expect, and lie on the chip."""

    claims: tuple[str, ...] = ("autograd",)
    advice = (
        "Autograd serves a device that torch knew before the first backward() of the process: Bridge.load() has to"
        " register it. Where one operation alone has a wrong gradient, its backward is a kernel of your torch plugin."
    )

    def test_gradients_are_on_the_device_of_their_tensors(self, device: torch.device) -> None:
        given = torch.tensor([1.0, 2.0], device=device, requires_grad=True)

        torch.autograd.backward(given.pow(3).sum())

        assert gradient_of(given).device == device
        assert gradient_of(given).dtype == torch.float32
        assert gradient_of(given).tolist() == [3, 12]

    def test_gradients_accumulate(self, device: torch.device) -> None:
        given = torch.tensor([1.0, 2.0], device=device, requires_grad=True)

        torch.autograd.backward((given * 3).sum())
        torch.autograd.backward((given * given).sum())

        assert gradient_of(given).tolist() == [5, 7]

    def test_tensor_used_twice_gets_both_gradients(self, device: torch.device) -> None:
        given = torch.tensor([2.0], device=device, requires_grad=True)
        half = given * 0.5

        torch.autograd.backward(half * half + half * 3)

        assert gradient_of(given).item() == 2.5

    def test_second_order_gradient(self, device: torch.device) -> None:
        given = torch.tensor([2.0], device=device, requires_grad=True)

        (slope,) = torch.autograd.grad(given.pow(3), given, create_graph=True)
        (curve,) = torch.autograd.grad(slope, given)

        assert slope.item() == 12
        assert curve.item() == 12

    def test_gradient_flows_from_the_device_to_the_cpu(self, device: torch.device) -> None:
        given = torch.tensor([1.0, 2.0], requires_grad=True)

        torch.autograd.backward(((given.to(device) * 3).cpu() * torch.tensor([1.0, 10.0])).sum())

        assert gradient_of(given).device.type == "cpu"
        assert gradient_of(given).tolist() == [3, 30]

    def test_no_grad_and_detach_disable_gradients(self, device: torch.device) -> None:
        given = torch.ones(2, device=device, requires_grad=True)

        with torch.no_grad():
            assert not (given * 2).requires_grad
        assert not (given * 2).detach().requires_grad
        assert (given * 2).requires_grad

    def test_custom_autograd_function(self, device: torch.device) -> None:
        given = torch.tensor([1.0, 3.0], device=device, requires_grad=True)

        found = Double.apply(given)  # type: ignore[no-untyped-call]  # torch's
        torch.autograd.backward(found.sum())

        assert found.tolist() == [2, 6]
        assert gradient_of(given).tolist() == [3, 5]

    def test_hooks_see_and_change_gradients(self, device: torch.device) -> None:
        given = torch.ones(2, device=device, requires_grad=True)
        seen: list[torch.device] = []

        def triple(slope: Tensor) -> Tensor:
            seen.append(slope.device)
            return slope * 3

        given.register_hook(triple)  # type: ignore[no-untyped-call]  # torch's
        torch.autograd.backward((given * 2).sum())

        assert seen == [device]
        assert gradient_of(given).tolist() == [6, 6]

    def test_backward_in_another_thread(self, device: torch.device) -> None:
        given = torch.ones(2, device=device, requires_grad=True)
        loss = (given.to(device) * 4).sum()

        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()

        assert gradient_of(given).tolist() == [4, 4]

    def test_activation_checkpointing_has_the_same_gradients(self, device: torch.device) -> None:
        given = torch.randn(8, 5, device=device, requires_grad=True)

        found = checkpoint(lambda numbers: torch.tanh(numbers) * numbers, given, use_reentrant=False)
        assert isinstance(found, Tensor)
        (slope,) = torch.autograd.grad(found.sum(), given)
        (expected,) = torch.autograd.grad((torch.tanh(given) * given).sum(), given)

        assert torch.equal(slope.cpu(), expected.cpu())

    def test_in_place_change_of_a_saved_tensor_raises(self, device: torch.device) -> None:
        given = torch.ones(2, device=device, requires_grad=True)
        half = given * 0.5
        loss = (half * half).sum()

        half.detach().add_(1)

        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.backward(loss)

    def test_zero_grad_sets_gradients_to_none(self, device: torch.device) -> None:
        layer = nn.Linear(2, 2, device=device)
        optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
        layer(torch.ones(1, 2, device=device)).sum().backward()
        assert layer.weight.grad is not None

        optimizer.zero_grad()

        assert [each.grad for each in layer.parameters()] == [None, None]

    def test_optimizer_skips_parameters_without_a_gradient(self, device: torch.device) -> None:
        used, unused = nn.Linear(2, 2, device=device), nn.Linear(2, 2, device=device)
        optimizer = torch.optim.AdamW([*used.parameters(), *unused.parameters()], lr=0.1)
        unused(used(torch.ones(1, 2, device=device))).sum().backward()
        optimizer.step()
        before = [each.detach().clone() for each in unused.parameters()]

        for _ in range(2):
            optimizer.zero_grad()
            used(torch.ones(1, 2, device=device)).sum().backward()
            optimizer.step()

        assert all(map(torch.equal, unused.parameters(), before))


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
