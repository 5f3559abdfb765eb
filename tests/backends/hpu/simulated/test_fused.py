"""The vendor's fused optimizers, where they differ from torch's.

Where they are as torch's, the suite's FusedOptimizers prove it.
"""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch import nn


@pytest.fixture
def optimizers(hpu: ModuleType) -> ModuleType:
    import habana_frameworks.torch.hpex.optimizers as optimizers

    module: ModuleType = optimizers
    return module


def weight_of(value: float, gradient: float, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    weight = nn.Parameter(torch.tensor([value], dtype=dtype, device="hpu"))
    weight.grad = torch.full_like(weight, gradient)
    return weight


@pytest.mark.parametrize("corrects", [True, False])
def test_adamw_adds_epsilon_to_the_uncorrected_root(optimizers: ModuleType, corrects: bool) -> None:
    weight = weight_of(2.0, 3.0)
    options = {"lr": 0.01, "betas": (0.8, 0.99), "eps": 0.1, "weight_decay": 0.1, "bias_correction": corrects}

    optimizers.FusedAdamW([weight], **options).step()

    size = 0.01 * (math.sqrt(1 - 0.99) / (1 - 0.8) if corrects else 1)
    expected = 2.0 * (1 - 0.01 * 0.1) - size * (1 - 0.8) * 3.0 / (math.sqrt(1 - 0.99) * 3.0 + 0.1)
    assert weight.item() == pytest.approx(expected, rel=1e-6)


def test_adamws_defaults_differ_and_steps_count_by_group(optimizers: ModuleType) -> None:
    first, second = weight_of(1.0, 1.0), nn.Parameter(torch.ones(1, device="hpu"))
    optimizer = optimizers.FusedAdamW([{"params": [first]}, {"params": [second]}])
    torchs = torch.optim.AdamW([first]).defaults

    optimizer.step()
    optimizer.step()

    ours = optimizer.defaults
    assert {key: (ours[key], torchs[key]) for key in ours if key in torchs and ours[key] != torchs[key]} == {
        "eps": (1e-6, 1e-8),
        "weight_decay": (0.0, 0.01),
    }
    assert [group.get("step") for group in optimizer.param_groups] == [2, None]
    assert optimizer.state[first]["step"] == 0
    with pytest.raises(NotImplementedError, match="the simulated Gaudi keeps no moments in float8"):
        optimizers.FusedAdamW([first], moments_dtype=torch.float8_e5m2)


def test_adamw_rounds_its_step_to_the_weights_dtype(optimizers: ModuleType) -> None:
    weight = weight_of(0.0, 1.0, torch.bfloat16)

    optimizers.FusedAdamW([weight], lr=0.001, eps=0.0).step()

    # In float32 the step is 0.001; bfloat16 rounds both the step and the moments.
    assert weight.item() != torch.tensor(-0.001).bfloat16().item()
    assert weight.item() == pytest.approx(-0.001, rel=0.02)


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
