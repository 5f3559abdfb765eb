"""Fused optimizers, and the norm to which gradients are clipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

import northbridge
from northbridge.lightning.strategies.optimizers import keep_counts, reject_fused
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of, rejected_where_denied

_STEPS = 3
_SIZES = (107, 4)
"""Kernels step whole vectors, of up to 64 elements, in another way than the rest of a tensor."""

_WAYS: dict[str, tuple[type[Optimizer], dict[str, Any]]] = {
    "AdamW": (AdamW, {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-8, "weight_decay": 0.1}),
    "SGD": (SGD, {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
}


class FusedOptimizers(OneDevice):
    """A fused step is the unfused one's in float64, and gradients are clipped to their 2-norm."""

    advice = (
        "Look at torch's _fused_adamw_ and _fused_sgd_ for your device, or at the classes in"
        ' Acceleration.fused_optimizers(); where there is neither, claim fused_optimizers=northbridge.no("the reason").'
    )

    @shows("fused_optimizers")
    @pytest.mark.parametrize("way", _WAYS)
    def test_fused_step_matches_float64(self, backend: str, device: torch.device, way: str) -> None:
        kind, options = _WAYS[way]

        found = _train(_fused(backend, kind, device), device, torch.float32, **options)

        expected = _train(kind, torch.device("cpu"), torch.float64, **options)
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)

    @shows("fused_optimizers", "{dtype}")
    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    @pytest.mark.parametrize("way", _WAYS)
    def test_fused_16_bit_step_matches_float64_or_raises(
        self, backend: str, device: torch.device, way: str, dtype: str
    ) -> None:
        kind, options = _WAYS[way]
        options = {**options, "lr": 0.1}
        narrow = getattr(torch, dtype)
        claims = northbridge.get(backend).present_capabilities().claims()
        try:
            fused = _fused(backend, kind, device, narrow)
        except northbridge.UnsupportedError:
            if claims["fused_optimizers"].denied or claims[dtype].denied:
                raise
            return  # it works in other dtypes, and this one is refused before training

        with rejected_where_denied(backend, dtype):
            found = _train(fused, device, narrow, **options)

            expected = _train(kind, torch.device("cpu"), torch.float64, **options)
            few_digits = 4 * torch.finfo(narrow).eps
            assert torch.allclose(found, expected, rtol=few_digits, atol=few_digits)

    @shows("fused_optimizers")
    def test_large_epsilon_matches_a_published_adamw_formula(self, backend: str, device: torch.device) -> None:
        options = {**_WAYS["AdamW"][1], "eps": 0.1}
        fused = _fused(backend, AdamW, device)

        found = _train(fused, device, torch.float32, **options)

        cpu = torch.device("cpu")
        published = [_train(AdamW, cpu, torch.float64, **options)]
        if not isinstance(fused, _TorchsFused):  # a vendor's class may add epsilon before it corrects the bias
            published.append(_train(_UncorrectedAdamW, cpu, torch.float64, **options))
        assert any(torch.allclose(found, expected, rtol=1e-5, atol=1e-5) for expected in published)

    @shows("fused_optimizers")
    def test_state_moves_between_unfused_and_fused(self, backend: str, device: torch.device) -> None:
        options = {**_WAYS["AdamW"][1]}
        fused = _fused(backend, AdamW, device)

        found = _train(AdamW, device, torch.float32, turns=(fused, AdamW), backend=backend, **options)

        expected = _train(AdamW, torch.device("cpu"), torch.float64, turns=(AdamW, AdamW), **options)
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("max_norm", [0.5, 100.0], ids=["clipped", "small enough"])
    def test_clip_grad_norm_matches_the_cpu(self, backend: str, device: torch.device, max_norm: float) -> None:
        on_chip, on_cpu = _weights(device, torch.float32), _weights(torch.device("cpu"), torch.float64)
        _give_gradients(on_chip, 0)
        _give_gradients(on_cpu, 0)

        norm = northbridge.get(backend).acceleration.clip_grad_norm(on_chip, max_norm)

        assert float(norm) == pytest.approx(float(nn.utils.clip_grad_norm_(on_cpu, max_norm)), rel=1e-5)
        for found, expected in zip(on_chip, on_cpu, strict=True):
            assert torch.allclose(gradient_of(found).cpu().double(), gradient_of(expected), rtol=1e-5, atol=1e-6)

    def test_gradient_norm_without_gradients_is_zero(self, backend: str, device: torch.device) -> None:
        assert float(northbridge.get(backend).acceleration.clip_grad_norm(_weights(device, torch.float32), 1.0)) == 0


class _TorchsFused:
    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __call__(self, parameters: list[nn.Parameter], **options: Any) -> Optimizer:
        optimizer: Optimizer = self.kind(parameters, fused=True, **options)
        return optimizer


def _fused(backend: str, kind: type[Optimizer], device: torch.device, dtype: torch.dtype = torch.float32) -> Any:
    """Return what builds the chip's fused optimizer: the vendor's class, or torch's. Raises UnsupportedError."""
    chip = northbridge.get(backend)
    vendors = chip.acceleration.fused_optimizers()
    if kind in vendors:
        return vendors[kind]
    reject_fused(chip, _TorchsFused(kind)([nn.Parameter(torch.zeros(1, device=device, dtype=dtype))], lr=0.1))
    return _TorchsFused(kind)


class _UncorrectedAdamW(AdamW):
    """AdamW whose epsilon is added to the root of the uncorrected squares, as in the end of section 2 of Adam's paper.

    Equal to torch's with an epsilon that grows with the correction.
    """

    def step(self, closure: Any = None) -> Any:
        asked = [group["eps"] for group in self.param_groups]
        for group, eps in zip(self.param_groups, asked, strict=True):
            counts = [float(self.state[each]["step"]) for each in group["params"] if self.state[each]]
            group["eps"] = eps / (1 - group["betas"][1] ** (max(counts, default=0) + 1)) ** 0.5
        super().step(closure)
        for group, eps in zip(self.param_groups, asked, strict=True):
            group["eps"] = eps


def _weights(device: torch.device, dtype: torch.dtype) -> list[nn.Parameter]:
    return [nn.Parameter(torch.linspace(-1, 1, size).to(dtype).to(device)) for size in _SIZES]


def _give_gradients(parameters: list[nn.Parameter], step: int) -> None:
    for parameter, gradient in zip(parameters, _gradients(step), strict=True):
        parameter.grad = gradient.to(parameter)


def _gradients(step: int) -> Iterator[Tensor]:
    first, second = _SIZES
    yield torch.linspace(0.5, 3 + step, first)
    yield torch.linspace(-2, 2, second) - step


def _train(
    kind: Any,
    device: torch.device,
    dtype: torch.dtype,
    *,
    turns: tuple[Any, ...] = (),
    backend: str = "",
    **options: Any,
) -> Tensor:
    """Train with ``kind`` and then with each of ``turns``, which load the state; return the weights in float64."""
    parameters, state = _weights(device, dtype), None
    for turn, each in enumerate((kind, *turns)):
        optimizer = each(parameters, **options)
        if backend:
            keep_counts(northbridge.get(backend), optimizer)
        if state is not None:
            optimizer.load_state_dict(state)
        for step in range(_STEPS):
            _give_gradients(parameters, turn + step)
            optimizer.step()
        state = optimizer.state_dict()
    return torch.cat([each.detach().cpu().double() for each in parameters])
