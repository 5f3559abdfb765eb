"""Layers and their gradients against the CPU's, also as torch.jit.trace records them for TorchScript and ONNX."""

from __future__ import annotations

import copy
import io
import warnings
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from northbridge.lightning.strategies.optimizers import follow, following, keeps_parameters
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.tests.device.one_device import OneDevice
from northbridge_conformance.tests.device.operation import (
    CONVOLVED,
    EXACT,
    ROUNDED,
    SUMMED,
    Form,
    Tolerance,
    as_it_is,
    turned,
)
from northbridge_conformance.tests.device.operations import allow, allow_for_claims, assert_near, leaves_of

_CPU = torch.device("cpu")

Made = tuple[nn.Module, tuple[Tensor, ...]]

LAYERS: dict[str, tuple[Callable[[], Made], Tolerance]] = {
    "Linear": (lambda: (nn.Linear(7, 5), (torch.randn(3, 7),)), SUMMED),
    "Bilinear": (lambda: (nn.Bilinear(4, 3, 5), (torch.randn(6, 4), torch.randn(6, 3))), SUMMED),
    "Conv1d": (lambda: (nn.Conv1d(3, 4, 3, padding=1), (torch.randn(2, 3, 9),)), CONVOLVED),
    "Conv2d": (lambda: (nn.Conv2d(4, 6, 3, stride=2, groups=2), (torch.randn(2, 4, 9, 9),)), CONVOLVED),
    "ConvTranspose2d": (lambda: (nn.ConvTranspose2d(3, 4, 3, stride=2), (torch.randn(2, 3, 5, 5),)), CONVOLVED),
    "BatchNorm2d": (lambda: (nn.BatchNorm2d(3), (torch.randn(4, 3, 5, 5),)), SUMMED),
    "LayerNorm": (lambda: (nn.LayerNorm(8), (torch.randn(3, 4, 8),)), SUMMED),
    "GroupNorm": (lambda: (nn.GroupNorm(2, 6), (torch.randn(3, 6, 5),)), SUMMED),
    "Embedding": (lambda: (nn.Embedding(9, 5, padding_idx=0), (torch.randint(0, 9, (3, 4)),)), ROUNDED),
    "RNN": (lambda: (nn.RNN(4, 5), (torch.randn(6, 2, 4),)), SUMMED),
    "LSTM": (lambda: (nn.LSTM(4, 5, num_layers=2, batch_first=True), (torch.randn(2, 6, 4),)), SUMMED),
    "GRU": (lambda: (nn.GRU(4, 5, bidirectional=True), (torch.randn(6, 2, 4),)), SUMMED),
    "RNNCell": (lambda: (nn.RNNCell(4, 5), (torch.randn(3, 4), torch.randn(3, 5))), SUMMED),
    "LSTMCell": (lambda: (nn.LSTMCell(4, 5), (torch.randn(3, 4),)), SUMMED),
    "GRUCell": (lambda: (nn.GRUCell(4, 5), (torch.randn(3, 4), torch.randn(3, 5))), SUMMED),
    "MultiheadAttention": (
        lambda: (nn.MultiheadAttention(8, 2, batch_first=True), tuple(torch.randn(2, 5, 8) for _ in range(3))),
        SUMMED,
    ),
    "TransformerEncoderLayer": (
        lambda: (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (torch.randn(2, 5, 8),)),
        SUMMED,
    ),
    "MaxPool2d": (lambda: (nn.MaxPool2d(2), (torch.randn(2, 3, 6, 6),)), EXACT),
    "AvgPool2d": (lambda: (nn.AvgPool2d(3), (torch.randn(2, 3, 6, 6),)), SUMMED),
    "PReLU": (lambda: (nn.PReLU(3), (torch.randn(4, 3, 5),)), SUMMED),
    "CrossEntropyLoss": (lambda: (nn.CrossEntropyLoss(), (torch.randn(6, 5), torch.randint(0, 5, (6,)))), SUMMED),
}
"""For each layer: a function that makes it and its input, and the tolerance against the CPU."""

FUSED = ("MultiheadAttention", "TransformerEncoderLayer")
"""Layers for which torch's CPU has one fused inference kernel, which adds up in another order."""


FORMS: dict[str, Form] = {
    "turned": turned,
    "every other": lambda given: torch.stack([given, given], -1)[..., 0],
    "behind others": lambda given: torch.cat([given[:1], given])[1:],
}
"""Memory layouts other than contiguous from offset 0."""


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.05},
    "SGD, momentum and decay": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1},
    "SGD, by Nesterov": {"lr": 0.05, "momentum": 0.9, "nesterov": True},
    "SGD, upwards": {"lr": 0.05, "maximize": True},
    "Adam": {"lr": 0.05},
    "Adam, decay and the largest": {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True},
    "Adam, one after another": {"lr": 0.05, "weight_decay": 0.1, "foreach": False},
    "AdamW": {"lr": 0.05},
    "AdamW, much decay": {"lr": 0.05, "weight_decay": 0.5},
    "RMSprop": {"lr": 0.05},
    "RMSprop, centered": {"lr": 0.05, "centered": True, "momentum": 0.5},
    "Adagrad": {"lr": 0.05},
}
"""The arguments of each optimizer, by its name and option. On devices other than the CPU, torch steps with foreach."""


class Layers(OneDevice):
    """Each layer computes, learns and is saved on the chip as on the CPU."""

    claims: tuple[str, ...] = ("float32",)
    advice = (
        "A layer is made of operators of your torch plugin: find the one that differs with Operations. If a move"
        " replaces parameters, look at _has_compatible_shallow_copy_type, which Northbridge registers."
    )

    @pytest.fixture(params=LAYERS)
    def name(self, request: pytest.FixtureRequest) -> str:
        """The name of the layer."""
        return str(request.param)

    @pytest.fixture
    def within(self, backend: str, name: str) -> Tolerance:
        """The tolerance against the CPU."""
        return allow(backend, LAYERS[name][1])

    @pytest.fixture
    def made(self, name: str) -> Made:
        """The layer on the CPU, and its input."""
        torch.manual_seed(zlib.crc32(name.encode()))
        return LAYERS[name][0]()

    def test_forward_and_backward_match_the_cpu(
        self, backend: str, device: torch.device, made: Made, within: Tolerance
    ) -> None:
        layer, given = made
        moved = copy.deepcopy(layer).to(device)

        expected, found = learn(layer, given, _CPU), learn(moved, given, device)

        more = allow_for_claims(backend, within, expected, lambda read: learn(*_read(made, read), _CPU))
        assert_near(found, expected, device, within, more)
        # Training updates the buffers too.
        assert_near(list(moved.buffers()), list(layer.buffers()), device, within)

    @pytest.mark.parametrize("form", FORMS)
    def test_strided_inputs_give_the_same_result(
        self, backend: str, device: torch.device, made: Made, within: Tolerance, form: str
    ) -> None:
        layer, given = made
        moved = copy.deepcopy(layer).to(device)

        expected = learn(layer, given, _CPU, FORMS[form])
        found = learn(moved, given, device, FORMS[form])

        more = allow_for_claims(backend, within, expected, lambda read: learn(*_read(made, read), _CPU, FORMS[form]))
        assert_near(found, expected, device, within, more)

    def test_evaluation_matches_the_cpu(
        self, backend: str, device: torch.device, name: str, made: Made, within: Tolerance
    ) -> None:
        layer, given = made
        moved = copy.deepcopy(layer).to(device)
        within = LAYERS[name][1] if name in FUSED else within
        for each, where in ((layer, _CPU), (moved, device)):
            learn(each, given, where)
            each.eval()

        def evaluate(read: Form) -> list[Any]:
            copied, near = _read(made, read)
            return leaves_of(copied(*near))

        with torch.no_grad():
            expected, found = leaves_of(layer(*given)), leaves_of(moved(*(each.to(device) for each in given)))
            more = allow_for_claims(backend, within, expected, evaluate)

        assert_near(found, expected, device, within, more)

    def test_state_dict_round_trip_is_exact(self, device: torch.device, made: Made) -> None:
        layer, _ = made
        state = {name: value.clone() for name, value in layer.state_dict().items()}
        there = copy.deepcopy(layer).to(device)
        with torch.no_grad():
            for each in layer.parameters():
                each.add_(1)
        file = io.BytesIO()

        torch.save(there.state_dict(), file)
        file.seek(0)
        loaded = copy.deepcopy(layer).to(device)
        loaded.load_state_dict(torch.load(file, map_location=device, weights_only=True))
        layer.load_state_dict(there.state_dict())

        for found in (there.state_dict(), loaded.state_dict()):
            assert all(value.device == device for value in found.values())
            assert {name: value.tolist() for name, value in found.items()} == {
                name: value.tolist() for name, value in state.items()
            }
        assert {name: value.tolist() for name, value in layer.state_dict().items()} == {
            name: value.tolist() for name, value in state.items()
        }

    def test_optimizer_trains_a_module_that_was_moved(self, device: torch.device) -> None:
        layer = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
        before = layer.weight

        move(layer, device, chip=device)
        follow(optimizer)
        layer(torch.ones(1, 2, device=device)).sum().backward()
        start = layer.weight.detach().clone()
        optimizer.step()

        assert (layer.weight is before) is keeps_parameters(device)
        assert torch.equal(layer.weight.detach(), start - 1)

    def test_moved_module_keeps_tied_weights(self, device: torch.device) -> None:
        pair = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        pair[1].weight = pair[0].weight

        move(pair, device, chip=device)
        assert pair[1].weight is pair[0].weight
        move(pair, _CPU, chip=device)
        assert pair[1].weight is pair[0].weight

    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_optimizer_steps_match_the_cpu(self, backend: str, device: torch.device, optimizer: str) -> None:
        within = allow(backend, Tolerance(1e-3, 1e-4))
        torch.manual_seed(0)
        layer, given = nn.Linear(7, 5), torch.randn(3, 7)
        made = copy.deepcopy(layer), (given,)
        moved = copy.deepcopy(layer).to(device)

        def step(layer: nn.Module, given: tuple[Tensor, ...]) -> list[Tensor]:
            steps = getattr(torch.optim, optimizer.partition(",")[0])(layer.parameters(), **OPTIMIZERS[optimizer])
            for _ in range(3):
                steps.zero_grad()
                layer(*given).square().mean().backward()
                steps.step()
            return [each.detach() for each in layer.parameters()]

        expected, found = step(layer, (given,)), step(moved, (given.to(device),))

        more = allow_for_claims(backend, within, expected, lambda read: step(*_read(made, read)))
        assert_near(found, expected, device, within, more)


def move(module: nn.Module, where: torch.device, *, chip: torch.device) -> None:
    """Move ``module`` to or from the ``chip``; if torch then replaces parameters, follow them as Northbridge does."""
    with nullcontext() if keeps_parameters(chip) else following(module):
        module.to(where)


def learn(layer: nn.Module, given: tuple[Tensor, ...], device: torch.device, form: Form = as_it_is) -> list[Any]:
    """Return the outputs of ``layer`` in training, and the gradients of its parameters and inputs.

    ``form`` lays out the inputs on the device.
    """
    layer.train()
    inputs = [form(each.detach().to(device)).detach().requires_grad_(each.is_floating_point()) for each in given]
    results = [each for each in leaves_of(layer(*inputs)) if isinstance(each, Tensor)]
    generator = torch.Generator().manual_seed(1)
    slopes = [torch.randn(each.shape, generator=generator).to(device) for each in results]
    wanted = [each for each in (*layer.parameters(), *inputs) if each.requires_grad]
    found = torch.autograd.grad(results, wanted, slopes, allow_unused=True, materialize_grads=True)
    return [*(each.detach() for each in results), *found]


def _read(made: Made, read: Form) -> Made:
    """Return a copy of the layer and its input, with numbers as ``read`` reads them."""
    layer, given = copy.deepcopy(made[0]), made[1]
    with torch.no_grad():
        for each in layer.parameters():
            each.copy_(read(each))
    return layer, tuple(map(read, given))


class Traces(OneDevice):
    """A traced layer computes from its input, and does not repeat the results of the tracing."""

    claims: tuple[str, ...] = ("float32",)
    advice = (
        "A kernel of your torch plugin takes the place of operators that torch's tracer records, and the tracer makes"
        " its result a constant. Register the kernel for what torch composes the operator of (_convolution for"
        " convolution), or compose it while torch traces, or raise then."
    )

    @pytest.mark.parametrize("name", LAYERS)
    def test_traced_layer_matches_the_cpu_or_raises(self, backend: str, device: torch.device, name: str) -> None:
        within = allow(backend, LAYERS[name][1])
        torch.manual_seed(zlib.crc32(name.encode()))
        layer, given = LAYERS[name][0]()
        others = tuple(_others_of(each) for each in given)
        expected = trace((layer, given), _CPU)
        try:
            found = trace((layer, given), device)
        except (RuntimeError, TypeError):
            return  # the error informs the user; a constant would not

        with torch.no_grad():
            results, cpus = found(*_moved(others, device)), expected(*others)
        learnt, expected_learnt = learn(found, others, device), learn(expected, others, _CPU)

        def compute(read: Form) -> list[Any]:
            copied, near = _Used(_read((layer, given), read)[0]), tuple(map(read, others))
            return [*copied(*near), *learn(copied, near, _CPU)]

        more = allow_for_claims(backend, within, [*cpus, *expected_learnt], compute)
        assert_near([*results, *learnt], [*cpus, *expected_learnt], device, within, more)


class _Used(nn.Module):
    """A layer whose results are used: torch itself refuses a model that is completely constant."""

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
        warnings.simplefilter("ignore")  # torch's tracer warns that it is old, and of each branch; a test may forbid it
        record: Any = torch.jit.trace  # untyped
        traced: nn.Module = record(used, _moved(given, device), check_trace=False)
    return traced


def _moved(given: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
    return tuple(each.to(device) for each in given)


def _others_of(given: Tensor) -> Tensor:
    return given.flip(0) / 2 if given.is_floating_point() else given.flip(0)
