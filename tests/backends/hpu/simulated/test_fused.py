"""The vendor's fused optimizers, where they differ from torch's.

Where they are as torch's, the suite's FusedOptimizers prove it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch import Tensor, nn

STEPS = 4


@pytest.fixture
def optimizers(hpu: ModuleType) -> ModuleType:
    import habana_frameworks.torch.hpex.optimizers as optimizers

    module: ModuleType = optimizers
    return module


def weights(dtype: torch.dtype, device: str) -> list[nn.Parameter]:
    """Two parameters with the same numbers in each dtype and on each device."""
    numbers = torch.Generator().manual_seed(3)
    return [nn.Parameter(torch.randn(size, generator=numbers).to(dtype).to(device)) for size in ((4, 3), (5,))]


def gradients() -> Iterator[list[Tensor]]:
    """The gradients of each step; they grow, so that the moments matter."""
    numbers = torch.Generator().manual_seed(4)
    for step in range(STEPS):
        yield [torch.randn(size, generator=numbers) * (step + 1) for size in ((4, 3), (5,))]


def train(kind: Callable[..., Any], dtype: torch.dtype = torch.float32, device: str = "hpu", **options: Any) -> Tensor:
    """Return all weights after the steps, in float64 on the CPU."""
    parameters = weights(dtype, device)
    optimizer = kind(parameters, **options)
    for given in gradients():
        for parameter, gradient in zip(parameters, given, strict=True):
            parameter.grad = gradient.to(parameter)
        optimizer.step()
    return torch.cat([each.detach().double().cpu().flatten() for each in parameters])


def by_formula(lr: float, betas: tuple[float, float], eps: float, weight_decay: float) -> Tensor:
    """AdamW in float64, with epsilon beside the root of the uncorrected squares."""
    beta1, beta2 = betas
    found = [each.detach() for each in weights(torch.float64, "cpu")]
    averages, squares = ([torch.zeros_like(each) for each in found] for _ in range(2))
    for step, given in enumerate(gradients(), 1):
        size = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        for index, gradient in enumerate(given):
            averages[index] = beta1 * averages[index] + (1 - beta1) * gradient.double()
            squares[index] = beta2 * squares[index] + (1 - beta2) * gradient.double() ** 2
            found[index] *= 1 - lr * weight_decay
            found[index] -= size * averages[index] / (squares[index].sqrt() + eps)
    return torch.cat([each.flatten() for each in found])


def test_adamw_has_the_published_formula(optimizers: ModuleType) -> None:
    options: Any = {"lr": 0.01, "betas": (0.8, 0.99), "eps": 0.1, "weight_decay": 0.1}

    found = train(optimizers.FusedAdamW, **options)

    assert torch.allclose(found, by_formula(**options), rtol=1e-6, atol=1e-7)
    assert (found - train(torch.optim.AdamW, torch.float64, "cpu", **options)).abs().max() > 1e-3


def test_adamw_without_bias_correction(optimizers: ModuleType) -> None:
    options: Any = {"lr": 0.01, "betas": (0.0, 0.0), "eps": 0.1, "weight_decay": 0.0}  # no moments, nothing to correct

    found = train(optimizers.FusedAdamW, bias_correction=False, **options)

    assert torch.allclose(found, by_formula(**options), rtol=1e-6, atol=1e-7)
    assert not torch.allclose(found, train(optimizers.FusedAdamW, bias_correction=False, lr=0.01))


def test_adamws_defaults_differ_and_steps_count_by_group(optimizers: ModuleType) -> None:
    first, second = weights(torch.float32, "hpu")
    optimizer = optimizers.FusedAdamW([{"params": [first]}, {"params": [second]}])
    torchs = torch.optim.AdamW([first]).defaults
    first.grad = torch.ones_like(first)

    optimizer.step()
    optimizer.step()

    ours = optimizer.defaults
    assert {key: (ours[key], torchs[key]) for key in ours if key in torchs and ours[key] != torchs[key]} == {
        "eps": (1e-6, 1e-8),
        "weight_decay": (0.0, 0.01),
    }
    assert [group.get("step") for group in optimizer.param_groups] == [2, None]
    assert optimizer.state[first]["step"] == 0


def test_adamw_rounds_its_step_to_the_weights_dtype(optimizers: ModuleType) -> None:
    weight = nn.Parameter(torch.zeros(1, dtype=torch.bfloat16, device="hpu"))
    weight.grad = torch.ones_like(weight)

    optimizers.FusedAdamW([weight], lr=0.001, eps=0.0).step()

    # In float32 the step is 0.001; bfloat16 rounds both the step and the moments.
    assert weight.item() != torch.tensor(-0.001).bfloat16().item()
    assert weight.item() == pytest.approx(-0.001, rel=0.02)


def test_moments_in_float8_are_not_simulated(optimizers: ModuleType) -> None:
    with pytest.raises(NotImplementedError, match="the simulated Gaudi keeps no moments in float8"):
        optimizers.FusedAdamW(weights(torch.float32, "hpu"), moments_dtype=torch.float8_e5m2)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "nesterov": True}], ids=str)
def test_sgd_matches_torch(optimizers: ModuleType, options: dict[str, Any]) -> None:
    torchs = train(torch.optim.SGD, torch.float64, "cpu", lr=0.1, **options)

    assert torch.allclose(train(optimizers.FusedSGD, lr=0.1, **options), torchs, rtol=1e-5, atol=1e-6)


def test_the_clip_has_the_first_gradients_dtype(hpu: ModuleType) -> None:
    from habana_frameworks.torch.hpex.normalization import FusedClipNorm

    weight = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16, device="hpu"))
    weight.grad = torch.tensor([3.0, 4.0]).to(weight)

    norm = FusedClipNorm([weight], 1.0).clip_norm(weight)

    assert (norm.tolist(), norm.dtype) == ([5.0], torch.bfloat16)
    assert weight.grad.tolist() == pytest.approx([0.6, 0.8], rel=0.01)
    nothing = FusedClipNorm([], 1.0).clip_norm([])
    assert (nothing.item(), nothing.device.type) == (0.0, "cpu")


def test_lazy_mode_steps_the_same_between_markers(run: Run) -> None:
    program = """
    from northbridge_hpu.simulated import markers
    from habana_frameworks.torch.hpex.optimizers import FusedAdamW
    weight = torch.nn.Parameter(torch.ones(1, device="hpu"))
    weight.grad = torch.ones_like(weight)
    FusedAdamW([weight], lr=0.5, weight_decay=0.1).step()
    print(f"{weight.item():.4f}", markers.placed)
    """
    assert run(program, PT_HPU_LAZY_MODE="1") == "0.4500 2\n"
