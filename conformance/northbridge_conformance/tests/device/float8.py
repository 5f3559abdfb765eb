"""Linear layers in float8, by the chip's first engine, and quantized for inference."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import northbridge
from northbridge.float8.engine import choose_engine
from northbridge.lightning.plugins.float8 import reject_float8
from northbridge.lightning.plugins.float8_inference import find_quantizer
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of

STEPS = 17
"""The most passes with inputs of one size: an engine may renew its scales less often than in each step."""

SIZES = (1.0, 1000.0)
"""The sizes of the inputs. They grow, because the largest value of a history is right as soon as it was seen."""

Pass = Callable[[Tensor, Tensor], dict[str, Tensor]]
"""Runs the layer forward and backward, with inputs and the gradients of its outputs."""


class Float8(OneDevice):
    """Products of linear layers are computed in float8, with scales that follow their tensors."""

    claims: tuple[str, ...] = ("float8",)
    advice = (
        "Look at Acceleration.float8_engines(): a scale is the largest number of the chip's float8, divided by the"
        " largest value of the tensor. The e4m3 of some chips ends at 240, of others at 448."
    )

    @pytest.fixture
    def layer(self) -> nn.Linear:
        """The layer, on the CPU."""
        torch.manual_seed(8)
        return nn.Linear(64, 48)

    @pytest.fixture
    def converted(self, backend: str, layer: nn.Linear, engine: tuple[northbridge.Float8Engine, Any]) -> nn.Module:
        """The layer in float8, on the CPU."""
        chosen, recipe = engine
        return chosen.convert(layer, recipe)

    @pytest.fixture
    def engine(self, backend: str, device: torch.device) -> tuple[northbridge.Float8Engine, Any]:
        """The engine and its default recipe."""
        own = northbridge.get(backend)
        reject_float8(own, "float8 training")
        _, chosen = choose_engine(backend, own.acceleration.float8_engines(), None)
        return chosen, chosen.read_recipe(None)

    @pytest.fixture
    def run(self, engine: tuple[northbridge.Float8Engine, Any], converted: nn.Module, device: torch.device) -> Pass:
        """A forward and a backward pass of the layer on the chip."""
        chosen, recipe = engine
        moved = converted.to(device)

        def run(given: Tensor, lost: Tensor) -> dict[str, Tensor]:
            moved.zero_grad()
            rows = given.to(device, torch.bfloat16).requires_grad_()
            with torch.autocast(device.type, dtype=torch.bfloat16), chosen.autocast(recipe):
                output: Tensor = moved(rows)
            torch.autograd.backward(output, lost.to(output))
            weight: Any = moved.weight
            found = {"output": output, "weight": gradient_of(weight), "input": gradient_of(rows)}
            return {name: each.detach().cpu() for name, each in found.items()}

        return run

    def test_layer_has_the_rounding_error_of_float8(self, layer: nn.Linear, run: Pass) -> None:
        errors: dict[str, float] = {}
        for size in SIZES:
            given, lost = torch.randn(32, 64) * size, torch.randn(32, 48) * size
            wanted = _exact(layer, given, lost)
            for _ in range(STEPS):
                errors = {name: round(_error(each, wanted[name]), 4) for name, each in run(given, lost).items()}
                # Rounding to three bits of mantissa is off by 2.6 % in the mean, to two bits by 5 %, to seven by 0.2 %.
                if all(0.01 < error < 0.12 for error in errors.values()):
                    break
            else:
                pytest.fail(f"{errors} at inputs of {size:g}, relative to float64")

    def test_largest_values_are_not_clipped(self, layer: nn.Linear, run: Pass) -> None:
        # Most values are near the largest: a range that ends early cuts each of them.
        given = torch.where(torch.rand(32, 64) < 0.5, -1.0, 1.0) * (1 - torch.rand(32, 64) / 8)
        lost = torch.ones(32, 48)
        wanted = _exact(layer, given, lost)["output"]

        assert any(_error(run(given, lost)["output"], wanted) < 0.06 for _ in range(STEPS))

    def test_conversion_keeps_parameters_and_their_names(self, layer: nn.Linear, converted: nn.Module) -> None:
        before = dict(layer.named_parameters())

        assert [(name, id(each)) for name, each in converted.named_parameters()] == [
            (name, id(each)) for name, each in before.items()
        ]
        assert list(converted.state_dict()) == list(before)

    def test_state_dict_of_a_plain_layer_loads(self, layer: nn.Linear, converted: nn.Module) -> None:
        other = nn.Linear(64, 48)

        converted.load_state_dict(other.state_dict())

        assert torch.equal(layer.weight, other.weight)

    def test_outputs_are_bfloat16_and_weight_gradients_float32(self, run: Pass) -> None:
        found = run(torch.randn(32, 64), torch.randn(32, 48))

        assert found["output"].dtype == torch.bfloat16
        assert found["weight"].dtype == torch.float32


def _exact(layer: nn.Linear, given: Tensor, lost: Tensor) -> dict[str, Tensor]:
    """Return what :data:`Pass` returns, computed in float64 from the inputs that bfloat16 keeps."""
    weight, bias = layer.weight.detach().cpu().double(), layer.bias.detach().cpu().double()
    rows, gradient = given.bfloat16().double(), lost.bfloat16().double()
    return {"output": rows @ weight.t() + bias, "weight": gradient.t() @ rows, "input": gradient @ weight}


def _error(found: Tensor, wanted: Tensor) -> float:
    """Return the norm of the error, relative to that of ``wanted``."""
    return float((found.double() - wanted).norm() / wanted.norm())


QUANTIZED_SIZES = (1.0, 900.0)
"""The sizes of the inputs: within the range of e4m3, and beyond it. Some chips have scales up to 16 alone."""


class QuantizedLayers(OneDevice):
    """A layer that was measured and quantized is as exact as float8, whatever the size of its inputs."""

    claims: tuple[str, ...] = ("float8",)
    advice = (
        "Look at the operators that quantize and dequantize: torchao's, or the vendor's that the quantizer calls. Each"
        " has a scale, of the input or of the weight."
    )

    @pytest.fixture
    def quantizer(self, backend: str, device: torch.device) -> northbridge.Float8Quantizer:
        """What Float8Inference quantizes with on the chip."""
        chip = northbridge.get(backend)
        reject_float8(chip, "float8 inference")
        choose_engine(backend, chip.acceleration.float8_engines(), None)  # a chip without an engine has no float8
        try:
            found = find_quantizer(backend, "float8 inference")
            found.library("float8 inference")
        except northbridge.UnsupportedError as error:
            pytest.skip(str(error))
        quantizer = found(device.type)
        quantizer.open()
        return quantizer

    @pytest.mark.parametrize("size", QUANTIZED_SIZES)
    def test_quantized_layer_has_the_rounding_error_of_float8(
        self, quantizer: northbridge.Float8Quantizer, device: torch.device, tmp_path: Path, size: float
    ) -> None:
        torch.manual_seed(8)
        layer, rows = nn.Sequential(nn.Linear(64, 48)), torch.randn(32, 64) * size
        exact = copy.deepcopy(layer).double()(rows.double()).detach()
        settings = quantizer.settle({}, tmp_path / "measure")
        measured = copy.deepcopy(layer).to(device)

        quantizer.measure(measured, settings, device)
        plain = _error(_outputs(measured, rows, device), exact)
        quantizer.finish(measured)
        quantized = layer.to(device)
        quantizer.quantize(quantized, settings)
        error = _error(_outputs(quantized, rows, device), exact)

        assert plain < 0.01, f"the layer that measures is off by {plain:.3f}, relative to float64"
        # Rounding to three bits of mantissa is off by 2.6 % in the mean, to seven by 0.2 %.
        assert 0.01 < error < 0.12, f"the quantized layer is off by {error:.3f}, relative to float64"


def _outputs(layer: nn.Module, rows: Tensor, device: torch.device) -> Tensor:
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        outputs: Tensor = layer(rows.to(device, torch.bfloat16))
    return outputs.cpu().double()
