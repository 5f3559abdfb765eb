"""Warnings about tensors of other dtypes or devices than the chip computes with: once, with tensor and reason."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, of_fabrics, of_trainers

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


class Card(northbridge.Device):
    type = "cpu"


class OldCard(Card):
    def capabilities(self, claimed: northbridge.Capabilities) -> northbridge.Capabilities:
        return replace(claimed, float64=northbridge.no("this generation has none"))


class CCL(northbridge.Collective):
    name = "tested_ccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        """Load nothing: these tests warn."""


def make(device: northbridge.Device | None = None, **claims: northbridge.Claim) -> northbridge.Backend:
    capabilities = replace(northbridge.Capabilities(), **claims)  # type: ignore[arg-type]  # only claims are given
    return northbridge.Backend("tested", device or Card(), CCL(), Software(), capabilities)


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


def test_parameter_is_named_with_reason_and_fix() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, dtype=torch.float64))

    assert told(lambda: warn_of_module(make(float64=NO_FLOAT64), module)) == [
        (
            "the parameter '1.weight' is float64, and 'tested' has no float64: it computes it as float32; make it"
            " float32, or keep to values that fit"
        )
    ]


def test_a_buffer_is_told_of_by_its_name() -> None:
    module = torch.nn.BatchNorm1d(2, affine=False, dtype=torch.float64)

    (message,) = told(lambda: warn_of_module(make(float64=NO_FLOAT64), module))

    assert message.startswith("the buffer 'running_mean' is float64, and 'tested' has no float64: it computes it as")


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

    assert [message.partition(", and")[0] for message in first + later] == [
        "the parameter 'weight' is float64",
        "a tensor of shape (1,) in the batch is int64",
    ]


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


def test_cards_denial_is_told_despite_the_familys_claim() -> None:
    batch = torch.zeros(1, dtype=torch.float64)

    (message,) = told(lambda: warn_of_batch(make(OldCard(), float64=northbridge.yes), batch))

    assert "'tested' has no float64: this generation has none;" in message


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

    assert told(lambda: warn(make(None, **claims))) == []


# --- In a Trainer and in a Fabric


def model_of(namespace: Namespace, dtype: torch.dtype = torch.float32) -> Any:
    """A module with one layer, for the Trainer of `namespace`."""
    kind: Any = importlib.import_module(namespace.name).LightningModule

    class Model(kind):  # type: ignore[misc]  # Lightning's class of this namespace, known at run time
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2, dtype=dtype)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            inputs, labels = batch
            return torch.nn.functional.cross_entropy(self.layer(inputs.to(self.layer.weight.dtype)), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Model()


def fit(build: Build, model: Any, category: type[Warning] = DtypeWarning) -> list[str]:
    """Return the warnings of a fit with two batches of inputs and int64 class labels."""
    data = torch.utils.data.TensorDataset(torch.ones(2, 2), torch.zeros(2, dtype=torch.int64))
    loader = torch.utils.data.DataLoader(data, batch_size=1, num_workers=0)
    return told(lambda: build(accelerator="cpu_sim", devices=1, max_steps=2).fit(model, loader), category)


@of_trainers
class TestInATrainer:
    def test_the_labels_are_told_once(self, namespace: Namespace, build: Build, claims: Claims) -> None:
        claims(int64=NO_INT64)

        (message,) = fit(build, model_of(namespace))

        assert message.startswith("a tensor of shape (1,) in the batch is int64")
        assert " is int64, and 'cpu_sim' has no int64: it holds it as int32;" in message

    def test_a_parameter_is_told_of_once(self, namespace: Namespace, build: Build, claims: Claims) -> None:
        claims(float64=NO_FLOAT64)

        (message,) = fit(build, model_of(namespace, torch.float64))

        assert message.startswith("the parameter 'layer.weight' is float64, and 'cpu_sim' has no float64: it computes")

    def test_missing_device_checks_are_told_in_the_first_run(
        self, namespace: Namespace, build: Build, claims: Claims
    ) -> None:
        claims(device_checks=northbridge.no("its kernels take any tensor"))

        (message,) = fit(build, model_of(namespace), PlacementWarning) + fit(
            build, model_of(namespace), PlacementWarning
        )

        assert message == (
            "a tensor may be left on the CPU, and 'cpu_sim' computes with it in silence, which can give wrong numbers:"
            " its kernels take any tensor; move each tensor of a step to self.device"
        )

    def test_of_a_chip_that_denies_nothing_nothing_is_told(self, namespace: Namespace, build: Build) -> None:
        assert fit(build, model_of(namespace, torch.float64)) == []


@of_fabrics
def test_in_a_fabric_a_parameter_is_told_of_at_setup(build: Build, claims: Claims) -> None:
    claims(float64=NO_FLOAT64)
    fabric = build(accelerator="cpu_sim", devices=1)

    (message,) = told(lambda: fabric.setup_module(torch.nn.Linear(2, 2, dtype=torch.float64)))

    assert message.startswith("the parameter 'weight' is float64, and 'cpu_sim' has no float64")
