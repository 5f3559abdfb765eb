"""Clipping by the norm, through a Trainer's precision plugin and a Fabric's strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build
from torch import nn
from torch.distributed.tensor import DTensor

import northbridge
from northbridge import Backend
from northbridge.discovery import named
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.plugins.precision import clips_by_itself

FABRICS = [namespace for namespace in NAMESPACES.values() if not namespace.is_trainer]

pytestmark = pytest.mark.usefixtures("chip")


class Counting(northbridge.Acceleration):
    """A vendor's own clip, which notes its calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[list[float]], float]] = []

    def clip_grad_norm(self, parameters: Iterable[nn.Parameter], max_norm: float) -> torch.Tensor:
        parameters = list(parameters)
        self.seen.append(([each.grad.tolist() for each in parameters if each.grad is not None], max_norm))
        return super().clip_grad_norm(parameters, max_norm)


@pytest.fixture
def backend(run_on: Callable[[Backend], None]) -> Backend:
    other = replace(named.load("cpu_sim"), acceleration=Counting())
    run_on(other)
    return other


def weight(gradient: list[float], device: str = "cpu_sim") -> nn.Parameter:
    parameter = nn.Parameter(torch.zeros(len(gradient), device=device))
    parameter.grad = torch.tensor(gradient, device=device)
    return parameter


def clip(namespace: Namespace, host: Any, optimizer: Any, max_norm: float, **options: Any) -> Any:
    """Clip as a run of the namespace does."""
    if namespace.is_trainer:
        return host.precision_plugin.clip_gradients(optimizer, max_norm, **options)
    host.launch()
    return host.clip_gradients(nn.Module(), optimizer, max_norm=max_norm, **options)


def test_the_chips_own_clip_is_called(namespace: Namespace, build: Build, backend: Backend) -> None:
    own = weight([3.0, 4.0])

    norm = clip(namespace, build(accelerator="cpu_sim", devices=1), torch.optim.SGD([own], 0.1), 1.0)

    assert backend.acceleration.seen == [([[3.0, 4.0]], 1.0)]  # type: ignore[attr-defined]  # of Counting
    assert own.grad is not None
    assert own.grad.tolist() == pytest.approx([0.6, 0.8])
    assert norm == (None if namespace.is_trainer else 5)


def test_scaled_gradients_are_unscaled_before(namespace: Namespace, build: Build, backend: Backend) -> None:
    host = build(accelerator="cpu_sim", devices=1, precision="16-mixed")
    own = weight([3.0, 4.0])
    optimizer = torch.optim.SGD([own], 0.1)
    precision = host.precision_plugin if namespace.is_trainer else host._precision
    scale = float(precision.scaler.scale(torch.ones(1, device="cpu_sim")))
    assert own.grad is not None
    own.grad.mul_(scale)
    if namespace.is_trainer:  # a Trainer's plugin does it before its hooks, in optimizer_step
        precision.scaler.unscale_(optimizer)

    clip(namespace, host, optimizer, 1.0)

    assert scale > 1
    assert backend.acceleration.seen == [([[3.0, 4.0]], 1.0)]  # type: ignore[attr-defined]  # of Counting


def test_values_are_clipped_by_torch(namespace: Namespace, build: Build, backend: Backend) -> None:
    host, own = build(accelerator="cpu_sim", devices=1), weight([3.0, 4.0])
    optimizer = torch.optim.SGD([own], 0.1)
    if namespace.is_trainer:
        host.precision_plugin.clip_grad_by_value(optimizer, 1.0)
    else:
        host.launch()
        host.clip_gradients(nn.Module(), optimizer, clip_val=1.0)

    assert own.grad is not None
    assert own.grad.tolist() == [1.0, 1.0]
    assert backend.acceleration.seen == []  # type: ignore[attr-defined]  # of Counting


@pytest.mark.parametrize("norm", [1.0, float("inf")])
def test_another_norm_is_torchs(backend: Backend, norm: float) -> None:
    assert not clips_by_itself(backend, [weight([1.0])], norm)
    assert clips_by_itself(backend, [weight([1.0])], 2)


def test_gradients_elsewhere_and_parts_of_gradients_are_torchs(backend: Backend) -> None:
    part = weight([1.0])
    part.grad = torch.Tensor._make_subclass(DTensor, torch.ones(1, device="cpu_sim"))  # no mesh is needed to see it

    assert not clips_by_itself(backend, [weight([1.0], "cpu")])
    assert not clips_by_itself(backend, [weight([1.0]), part])


def test_a_chip_without_a_clip_of_its_own_leaves_it_to_torch() -> None:
    assert not clips_by_itself(named.load("cpu_sim"), [weight([1.0])])


@pytest.mark.parametrize("namespace", FABRICS, indirect=True, ids=lambda namespace: namespace.name)
def test_a_fabric_refuses_a_norm_that_is_not_finite(namespace: Namespace, build: Build, backend: Backend) -> None:
    host, own = build(accelerator="cpu_sim", devices=1), weight([float("nan"), 1.0])
    optimizer = torch.optim.SGD([own], 0.1)

    with pytest.raises(RuntimeError) as ours:
        clip(namespace, host, optimizer, 1.0)
    with pytest.raises(RuntimeError) as torchs:
        torch.nn.utils.clip_grad_norm_([weight([float("nan")])], 1.0, error_if_nonfinite=True)

    assert str(ours.value) == str(torchs.value)
    clip(namespace, host, optimizer, 1.0, error_if_nonfinite=False)
    assert len(backend.acceleration.seen) == 2  # type: ignore[attr-defined]  # of Counting
