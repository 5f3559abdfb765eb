"""Warnings about tensors of other dtypes or devices than the chip computes with: once, with tensor and reason."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from tests.core.conftest import make_backend
from tests.core.lightning.conftest import Build, Claims, of_trainers

import northbridge
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies import unsupported
from northbridge.lightning.strategies.unsupported import (
    DtypeWarning,
    PlacementWarning,
    warn_of_batch,
    warn_of_module,
)

NO_FLOAT64 = northbridge.no("it computes it as float32")
NO_INT64 = northbridge.no("it holds it as int32")


def make(**claims: northbridge.Claim) -> northbridge.Backend:
    capabilities = replace(northbridge.Capabilities(), **claims)  # type: ignore[arg-type]  # only claims are given
    return make_backend(capabilities=capabilities)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process have warned of no dtype yet."""
    monkeypatch.setattr(unsupported, "_warned", set())


def told(act: Callable[[], object], category: type[Warning] = DtypeWarning) -> list[str]:
    """Return the warnings about dtypes while `act` runs, or those of `category`, without Lightning's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [str(each.message) for each in caught if each.category is category]


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (
            torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, dtype=torch.float64)),
            "parameter '1.weight'",
        ),
        (torch.nn.BatchNorm1d(2, affine=False, dtype=torch.float64), "buffer 'running_mean'"),
    ],
)
def test_parameter_is_named_with_reason_and_fix(module: torch.nn.Module, named: str) -> None:
    assert told(lambda: warn_of_module(make(float64=NO_FLOAT64), module)) == [
        (
            f"the {named} is float64, and 'tested' has no float64: it computes it as float32; make it"
            " float32, or keep to values that fit"
        )
    ]


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(torch.zeros(2, 3, dtype=torch.float64), id="a tensor"),
        pytest.param([torch.zeros(1), (torch.zeros(2, 3, dtype=torch.float64),)], id="in a list"),
        pytest.param({"name": "x", "inputs": {"left": torch.zeros(2, 3, dtype=torch.float64)}}, id="in a dictionary"),
    ],
)
def test_a_tensor_of_a_batch_is_told_of_by_its_shape(batch: Any) -> None:
    (message,) = told(lambda: warn_of_batch(make(float64=NO_FLOAT64), batch))

    assert message == (
        "a tensor of shape (2, 3) in the batch is float64, and 'tested' has no float64: it computes it as float32;"
        " make it float32, or keep to values that fit"
    )


def test_each_dtype_is_told_of_once_a_process() -> None:
    backend = make(float64=NO_FLOAT64, int64=NO_INT64)
    module = torch.nn.BatchNorm1d(2, dtype=torch.float64)
    batch = [torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)]

    first = told(lambda: warn_of_module(backend, module))
    later = told(lambda: warn_of_module(backend, module)) + told(lambda: warn_of_batch(backend, batch))

    parameter, of_batch = first + later
    assert parameter.startswith("the parameter 'weight' is float64, and")
    assert of_batch == (
        "a tensor of shape (1,) in the batch is int64, and 'tested' has no int64: it holds it as int32; class labels"
        " and token ids fit; a number beyond 2^31 does not"
    )


CONVNET = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.ReLU())


def test_convolution_in_less_precision_is_named() -> None:
    backend = make(
        float32_convolutions=northbridge.no("they are computed in float16; EXACT=1 computes them in float32")
    )

    assert told(lambda: warn_of_module(backend, CONVNET)) == [
        (
            "'0' is a convolution in float32, and 'tested' does not compute it in float32: they are computed in"
            " float16; EXACT=1 computes them in float32"
        )
    ]
    assert told(lambda: warn_of_module(backend, CONVNET)) == []


def test_linear_layer_in_less_precision_is_named() -> None:
    backend = make(float32_products=northbridge.no("it reads ten bits"))

    assert told(lambda: warn_of_module(backend, torch.nn.Sequential(torch.nn.Linear(2, 2)))) == [
        "'0' is a linear layer in float32, and 'tested' does not compute it in float32: it reads ten bits"
    ]


def test_spectral_norm_is_not_moved_by_set_up() -> None:
    """It does whenever its weight is read, and would train to other numbers than on the CPU."""
    layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3))
    before = [each.clone() for each in layer.buffers()]
    backend = make(float32_products=northbridge.no("it reads ten bits"))

    assert len(told(lambda: warn_of_module(backend, torch.nn.Sequential(layer)))) == 1
    assert all(map(torch.equal, before, layer.buffers()))


@pytest.mark.parametrize(
    ("precision", "expected"), [("bf16-mixed", 1), ("bf16-true", 1), ("16-mixed", 0), ("32-true", 0)]
)
def test_missing_bfloat16_range_is_told(precision: str, expected: int) -> None:
    backend = make(bfloat16_range=northbridge.no("matrix products end at 65504"))

    said = told(lambda: warn_of_module(backend, torch.nn.Linear(1, 1), precision))

    words = "and 'tested' does not have bfloat16's range in matrix products: matrix products end at 65504"
    assert said == [f"precision={precision!r} was asked for, {words}"][:expected]


IN_FLOAT16 = northbridge.no("they are computed in float16")
OTHERS = [torch.zeros(1, dtype=dtype) for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.bool)]
CASES: dict[str, tuple[dict[str, northbridge.Claim], Callable[[northbridge.Backend], object]]] = {
    "a counter": ({"int64": NO_INT64}, lambda chip: warn_of_module(chip, torch.nn.BatchNorm1d(2))),
    **{
        f"what is {claim.answer}": (
            {"float64": claim, "int64": claim},
            lambda chip: warn_of_module(chip, torch.nn.BatchNorm1d(2, dtype=torch.float64)),
        )
        for claim in (northbridge.yes, northbridge.unknown)
    },
    "no convolution": ({"float32_convolutions": IN_FLOAT16}, lambda chip: warn_of_module(chip, torch.nn.Linear(1, 1))),
    "not in float32": (
        {"float32_convolutions": IN_FLOAT16},
        lambda chip: warn_of_module(chip, torch.nn.Conv1d(1, 1, 1, dtype=torch.bfloat16), "bf16-true"),
    ),
    "autocast lowers it": (
        {"float32_convolutions": IN_FLOAT16},
        lambda chip: warn_of_module(chip, CONVNET, "16-mixed"),
    ),
    "other dtypes": ({"float64": NO_FLOAT64, "int64": NO_INT64}, lambda chip: warn_of_batch(chip, OTHERS)),
    "no tensors": (
        {"int64": NO_INT64},
        lambda chip: warn_of_batch(chip, {"text": ["a", "b"], "number": 2**40}),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_told_of_what_is_computed_as_it_is(case: str) -> None:
    claims, warn = CASES[case]

    assert told(lambda: warn(make(**claims))) == []


# --- In a Trainer and in a Fabric


@pytest.mark.parametrize("denied", [True, False])
def test_a_host_warns_of_its_model_and_its_batches(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, denied: bool
) -> None:
    """A Fabric of its model at set-up. What the card denies counts, and not what its family claims."""
    if denied:
        monkeypatch.setattr(
            type(northbridge.load("cpu_sim").device),
            "capabilities",
            lambda _, claimed: replace(claimed, float64=NO_FLOAT64, int64=NO_INT64),
        )
    host = build(accelerator="cpu_sim", devices=1, **({"max_steps": 2} if namespace.is_trainer else {}))
    layer = torch.nn.Linear(2, 2, dtype=torch.float64)

    said = told(partial(train, namespace, host, layer) if namespace.is_trainer else partial(host.setup_module, layer))

    named = "layer.weight" if namespace.is_trainer else "weight"
    parameter = f"the parameter '{named}' is float64, and 'cpu_sim' has no float64: it computes it as float32"
    batch = "a tensor of shape (1,) in the batch is int64, and 'cpu_sim' has no int64: it holds it as int32"
    expected = [parameter, batch] if namespace.is_trainer else [parameter]
    assert [each.partition(";")[0] for each in said] == (expected if denied else [])


@of_trainers
def test_missing_device_checks_are_told_in_the_first_run(namespace: Namespace, build: Build, claims: Claims) -> None:
    claims(device_checks=northbridge.no("its kernels take any tensor"))

    def fit() -> None:
        train(namespace, build(accelerator="cpu_sim", devices=1, max_steps=2), torch.nn.Linear(2, 2).double())

    (message,) = told(fit, PlacementWarning) + told(fit, PlacementWarning)

    assert message == (
        "a tensor may be left on the CPU, and 'cpu_sim' computes with it in silence, which can give wrong numbers:"
        " its kernels take any tensor; move each tensor of a step to self.device"
    )


def train(namespace: Namespace, host: Any, layer: torch.nn.Module) -> None:
    """Fit ``layer`` to two batches of inputs and int64 class labels."""
    model: Any = importlib.import_module(namespace.name).LightningModule()
    model.layer = layer
    model.training_step = lambda batch: torch.nn.functional.cross_entropy(layer(batch[0].double()), batch[1])
    model.configure_optimizers = lambda: torch.optim.SGD(layer.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.ones(2, 2), torch.zeros(2, dtype=torch.int64))
    host.fit(model, torch.utils.data.DataLoader(data, batch_size=1, num_workers=0))
