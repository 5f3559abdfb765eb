"""Linear layers quantized to float8 for inference."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import northbridge
from northbridge.float8.engine import choose_engine
from northbridge.lightning.plugins.float8 import reject_float8
from northbridge.lightning.plugins.float8_inference import find_quantizer
from northbridge_conformance.tests.device.one_device import OneDevice

SIZES = (1.0, 900.0)
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

    @pytest.mark.parametrize("size", SIZES)
    def test_a_quantized_layer_is_as_exact_as_float8(
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


def _error(found: Tensor, wanted: Tensor) -> float:
    """Return the norm of the error, relative to that of ``wanted``."""
    return float((found - wanted).norm() / wanted.norm())
