from __future__ import annotations

import inspect
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims
from torch.amp.grad_scaler import GradScaler

from northbridge.capabilities import Capabilities, no
from northbridge.discovery import named
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import NAMESPACES, Namespace


def precision_of(built: Any) -> Any:
    """The plugin of a Trainer or a Fabric."""
    return built.precision_plugin if hasattr(built, "precision_plugin") else built._precision


def test_bf16_mixed_autocasts_on_the_chips_own_device_type(namespace: Namespace, build: Build) -> None:
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, precision="bf16-mixed"))

    assert type(plugin) is namespace.module("plugins").MixedPrecision
    assert plugin.device == "cpu_sim"
    with plugin.forward_context():
        assert torch.is_autocast_enabled("cpu_sim")
        assert torch.get_autocast_dtype("cpu_sim") == torch.bfloat16


def test_16_mixed_scales_gradients_on_the_chip(build: Build) -> None:
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, precision="16-mixed"))

    assert plugin.device == "cpu_sim"
    assert plugin.scaler.is_enabled()
    assert plugin.scaler._device == "cpu_sim"


def test_16_mixed_uses_the_devices_scaler(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaler(GradScaler): ...

    device = type(named.load("cpu_sim").device)
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
    ("precision", "plugin"),
    [
        (None, "Precision"),
        ("32-true", "Precision"),
        (32, "Precision"),
        ("64-true", "DoublePrecision"),
        ("16-true", "HalfPrecision"),
        ("bf16-true", "HalfPrecision"),
    ],
)
def test_without_a_device_it_is_lightnings_own(namespace: Namespace, build: Build, precision: Any, plugin: str) -> None:
    found = precision_of(build(accelerator="cpu_sim", devices=1, precision=precision))

    assert type(found) is getattr(namespace.module("plugins"), plugin)


@pytest.mark.parametrize(
    ("precision", "claim", "instead"),
    [
        ("bf16-mixed", "bfloat16", "16-mixed"),
        ("bf16-true", "bfloat16", "16-mixed"),
        ("16-mixed", "float16", "bf16-mixed"),
        ("16-true", "float16", "bf16-mixed"),
        ("64-true", "float64", "32-true"),
        (64, "float64", "32-true"),
    ],
)
def test_a_denied_precision_is_refused(build: Build, claims: Claims, precision: Any, claim: str, instead: str) -> None:
    claims(**{claim: no("its matrix unit has none")})
    unified = "64-true" if precision == 64 else precision

    with pytest.raises(UnsupportedError) as refusal:
        build(accelerator="cpu_sim", devices=1, precision=precision)

    assert str(refusal.value) == (
        f"precision={unified!r}: 'cpu_sim' has no {claim}: its matrix unit has none. Fix: precision={instead!r}"
    )
    assert refusal.value.capability == claim


def test_a_precision_that_the_cards_deny_is_refused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def first_generation(device: object, claimed: Capabilities) -> Capabilities:
        return replace(claimed, float16=no("the first generation has none"))

    monkeypatch.setattr(type(named.load("cpu_sim").device), "capabilities", first_generation)
    build(accelerator="cpu_sim", devices=1, precision="bf16-mixed")

    with pytest.raises(UnsupportedError, match=r"'cpu_sim' has no float16: the first generation has none. Fix:"):
        build(accelerator="cpu_sim", devices=1, precision="16-mixed")


def test_a_chip_with_neither_half_precision_is_given_float32(build: Build, claims: Claims) -> None:
    claims(float16=no("too old"), bfloat16=no("too old"))

    with pytest.raises(UnsupportedError, match=r"has no bfloat16: too old\. Fix: precision='32-true'$"):
        build(accelerator="cpu_sim", devices=1, precision="bf16-mixed")


def test_a_plugin_made_for_cuda_is_refused(namespace: Namespace, build: Build) -> None:
    """Lightning would train in float32."""
    plugin = namespace.module("plugins").MixedPrecision("bf16-mixed", "cuda")

    with pytest.raises(UnsupportedError) as refusal:
        build(accelerator="cpu_sim", devices=1, plugins=[plugin])

    assert str(refusal.value) == ("MixedPrecision is for 'cuda', not 'cpu_sim'. Fix: precision='bf16-mixed'")


def test_a_plugin_that_was_made_for_the_chip_is_taken_as_it_is(namespace: Namespace, build: Build) -> None:
    plugin = namespace.module("plugins").MixedPrecision("bf16-mixed", "cpu_sim")

    assert precision_of(build(accelerator="cpu_sim", devices=1, plugins=plugin)) is plugin


def test_a_plugin_that_the_chip_denies_is_refused(namespace: Namespace, build: Build, claims: Claims) -> None:
    claims(bfloat16=no("its matrix unit has none"))
    plugin = namespace.module("plugins").HalfPrecision("bf16-true")

    with pytest.raises(UnsupportedError, match=r"^precision='bf16-true': 'cpu_sim' has no bfloat16"):
        build(accelerator="cpu_sim", devices=1, plugins=plugin)


@pytest.mark.parametrize("namespace", [NAMESPACES["lightning.fabric"]], indirect=True, ids=str)
def test_one_of_the_command_line_is_refused(build: Build, claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    claims(bfloat16=no("its matrix unit has none"))
    monkeypatch.setenv("LT_CLI_USED", "1")
    monkeypatch.setenv("LT_PRECISION", "bf16-mixed")

    with pytest.raises(UnsupportedError, match="'cpu_sim' has no bfloat16"):
        build(accelerator="cpu_sim", devices=1)


def test_a_precision_without_autocast_is_refused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    device = named.load("cpu_sim").device
    monkeypatch.setattr(type(device), "autocast_dtypes", lambda self: (torch.bfloat16,))
    build(accelerator="cpu_sim", devices=1, precision="bf16-mixed")

    with pytest.raises(UnsupportedError) as caught:
        build(accelerator="cpu_sim", devices=1, precision="16-mixed")

    assert str(caught.value) == (
        "precision='16-mixed': torch.autocast('cpu_sim') supports torch.bfloat16. Fix: precision='32-true'"
    )


def test_a_gradient_scaler_for_another_device_is_refused(namespace: Namespace, build: Build) -> None:
    """It would scale nothing."""
    scaler = GradScaler("cpu")
    plugin = namespace.module("plugins").MixedPrecision("16-mixed", "cpu_sim", scaler=scaler)

    with pytest.raises(UnsupportedError, match=r"the GradScaler of .* is for 'cpu', .* leave scaler= out"):
        build(accelerator="cpu_sim", devices=1, plugins=[plugin])
