"""Averaged models with a counter of integers among their buffers."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import northbridge


def averages(device: str, *, by_decay: bool = False) -> dict[str, torch.Tensor]:
    """Return the averages of five steps of a batch norm on `device`."""
    numbers = torch.Generator().manual_seed(1)
    norm = nn.BatchNorm1d(2).to(device)
    how = get_ema_multi_avg_fn(0.25) if by_decay else None  # type: ignore[no-untyped-call]  # torch's
    averaged = AveragedModel(norm, multi_avg_fn=how, use_buffers=True)
    for _ in range(5):
        norm(torch.rand(4, 2, generator=numbers).to(device))
        averaged.update_parameters(norm)
    return {name: each.cpu() for name, each in averaged.module.state_dict().items()}


def assert_averages(device: str) -> None:
    """Check that `device` averages as the CPU, counters too; the simulated vendors' chips are asked the same."""
    for by_decay in (False, True):
        torch.testing.assert_close(
            averages(device, by_decay=by_decay), averages("cpu", by_decay=by_decay), rtol=1e-5, atol=1e-6
        )


def test_averages_with_counters() -> None:
    northbridge.load("cpu_sim")

    assert_averages("cpu_sim")
    assert averages("cpu_sim")["num_batches_tracked"] == 1
