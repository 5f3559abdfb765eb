from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, of_fabrics, refusal
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed.tensor import DTensor

import northbridge
from northbridge import Backend
from northbridge.capabilities import no
from northbridge.discovery import declared
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.plugins.precision import clips_by_itself


def precision_of(built: Any) -> Any:
    """The plugin of a Trainer or a Fabric."""
    return built.precision_plugin if hasattr(built, "precision_plugin") else built._precision


def test_16_mixed_uses_the_devices_scaler(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaler(GradScaler): ...

    device = type(declared.load("cpu_sim").device)
    monkeypatch.setattr(device, "grad_scaler", lambda self: Scaler(device=self.type), raising=False)

    assert type(precision_of(build(accelerator="cpu_sim", devices=1, precision="16-mixed")).scaler) is Scaler
    assert precision_of(build(accelerator="cpu_sim", devices=1, precision="bf16-mixed")).scaler is None


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_a_mixed_precision_is_logged_in_lightnings_words(build: Build, logged: list[str], precision: str) -> None:
    host = build(accelerator="cpu_sim", devices=1, precision=precision)
    ours = [line for line in logged if "Mixed Precision" in line]
    logged.clear()
    connector = getattr(host, "_accelerator_connector", None) or host._connector
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no CUDA, for which Lightning's own makes a gradient scaler
        inspect.unwrap(type(connector)._check_and_init_precision)(connector)

    assert ours == logged
    assert len(ours) == 1


@pytest.mark.parametrize(
    ("precision", "claim", "other", "instead"),
    [
        ("bf16-mixed", "bfloat16", "bfloat16", "16-mixed"),
        ("bf16-mixed", "bfloat16", "float16", "32-true"),
        ("bf16-true", "bfloat16", "bfloat16", "16-mixed"),
        ("16-true", "float16", "float16", "bf16-mixed"),
        (64, "float64", "float64", "32-true"),
    ],
)
def test_a_denied_precision_is_refused(
    namespace: Namespace, build: Build, claims: Claims, precision: Any, claim: str, other: str, instead: str
) -> None:
    claims(**dict.fromkeys((claim, other), no("its matrix unit has none")))
    unified = "64-true" if precision == 64 else precision
    own = namespace.module("plugins").HalfPrecision(precision) if precision == "bf16-true" else None
    asked: dict[str, Any] = {"precision": precision} if own is None else {"plugins": own}

    said = refusal(UnsupportedError, build, accelerator="cpu_sim", devices=1, capability=claim, **asked)

    assert said == (
        f"precision={unified!r}: 'cpu_sim' has no {claim}: its matrix unit has none. Fix: precision={instead!r}"
    )


def test_a_plugin_made_for_cuda_is_refused(namespace: Namespace, build: Build) -> None:
    """Lightning would train in float32. One that was made for the chip is taken as it is."""
    ours, plugin = (namespace.module("plugins").MixedPrecision("bf16-mixed", device) for device in ("cpu_sim", "cuda"))

    said = refusal(UnsupportedError, build, accelerator="cpu_sim", devices=1, plugins=[plugin])

    assert said == "MixedPrecision is for 'cuda', not 'cpu_sim'. Fix: precision='bf16-mixed'"
    assert precision_of(build(accelerator="cpu_sim", devices=1, plugins=ours)) is ours


@pytest.mark.parametrize("namespace", [NAMESPACES["lightning.fabric"]], indirect=True, ids=str)
def test_one_of_the_command_line_is_refused(build: Build, claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    claims(bfloat16=no("its matrix unit has none"))
    monkeypatch.setenv("LT_CLI_USED", "1")
    monkeypatch.setenv("LT_PRECISION", "bf16-mixed")

    with pytest.raises(UnsupportedError, match="'cpu_sim' has no bfloat16"):
        build(accelerator="cpu_sim", devices=1)


def test_a_precision_without_autocast_is_refused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    device = declared.load("cpu_sim").device
    monkeypatch.setattr(type(device), "autocast_dtypes", lambda self: (torch.bfloat16,))
    build(accelerator="cpu_sim", devices=1, precision="bf16-mixed")

    said = refusal(UnsupportedError, build, accelerator="cpu_sim", devices=1, precision="16-mixed")

    assert said == "precision='16-mixed': torch.autocast('cpu_sim') supports torch.bfloat16. Fix: precision='32-true'"


def test_a_gradient_scaler_for_another_device_is_refused(namespace: Namespace, build: Build) -> None:
    """It would scale nothing."""
    scaler = GradScaler("cpu")
    plugin = namespace.module("plugins").MixedPrecision("16-mixed", "cpu_sim", scaler=scaler)

    with pytest.raises(UnsupportedError, match=r"the GradScaler of .* is for 'cpu', .* leave scaler= out"):
        build(accelerator="cpu_sim", devices=1, plugins=[plugin])


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
    other = replace(declared.load("cpu_sim"), acceleration=Counting())
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


def test_torch_clips_other_norms_and_foreign_gradients(backend: Backend) -> None:
    part = weight([1.0])
    part.grad = torch.Tensor._make_subclass(DTensor, torch.ones(1, device="cpu_sim"))  # no mesh is needed to see it

    assert clips_by_itself(backend, [weight([1.0])], 2)
    assert not clips_by_itself(backend, [weight([1.0])], 1.0)
    assert not clips_by_itself(backend, [weight([1.0])], float("inf"))
    assert not clips_by_itself(backend, [weight([1.0], "cpu")])
    assert not clips_by_itself(backend, [weight([1.0]), part])
    assert not clips_by_itself(replace(backend, acceleration=northbridge.Acceleration()), [weight([1.0])])


@of_fabrics
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
