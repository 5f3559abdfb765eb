"""Layers that torch.jit.trace has recorded on the chip, as TorchScript, ONNX and TensorBoard export them."""

from __future__ import annotations

import copy
import warnings
import zlib
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from northbridge.conformance.tests.device.layers import LAYERS, Made, learn
from northbridge.conformance.tests.device.one_device import OneDevice
from northbridge.conformance.tests.device.operations import allow, assert_near, leaves_of

_CPU = torch.device("cpu")


class Traces(OneDevice):
    """A traced layer computes with what it is given, and not what it computed when it was traced."""

    claims = ("float32",)
    advice: ClassVar[str] = (
        "A kernel of your torch plugin takes the place of operators that torch's tracer records, and of its result the"
        " tracer makes a constant. Register the kernel for what torch composes the operator of (_convolution for"
        " convolution), or compose it while torch traces, or raise then."
    )

    @pytest.mark.parametrize("name", LAYERS)
    def test_a_traced_layer_computes_or_is_refused(self, backend: str, device: torch.device, name: str) -> None:
        within = allow(backend, LAYERS[name][1])
        torch.manual_seed(zlib.crc32(name.encode()))
        layer, given = LAYERS[name][0]()
        others = tuple(_others_of(each) for each in given)
        expected = trace((layer, given), _CPU)
        try:
            found = trace((layer, given), device)
        except RuntimeError:
            return  # which tells the user; a constant does not

        with torch.no_grad():
            results, cpus = found(*_moved(others, device)), expected(*others)
        assert_near(results, cpus, device, within)
        assert_near(learn(found, others, device), learn(expected, others, _CPU), device, within)


class _Used(nn.Module):
    """A layer, and something that uses its results: torch itself refuses a model that is a constant as a whole."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(each * 1 for each in leaves_of(self.layer(*given)) if isinstance(each, Tensor))


def trace(made: Made, device: torch.device) -> nn.Module:
    """Return a copy of the layer, traced on ``device`` as Lightning does it: without gradients."""
    layer, given = made
    used = _Used(copy.deepcopy(layer).to(device))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's, of its tracer
        record: Any = torch.jit.trace  # untyped
        traced: nn.Module = record(used, _moved(given, device), check_trace=False)
    return traced


def _moved(given: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
    return tuple(each.to(device) for each in given)


def _others_of(given: Tensor) -> Tensor:
    return given.flip(0) / 2 if given.is_floating_point() else given.flip(0)
