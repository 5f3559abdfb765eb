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


CONVNET = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.ReLU())
DOUBLE = torch.zeros(2, 3, dtype=torch.float64)
OTHERS = [torch.zeros(1, dtype=dtype) for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.bool)]
IN_FLOAT16 = northbridge.no("they are computed in float16")
NO_RANGE = northbridge.no("matrix products end at 65504")
WIDE = (
    "{} is float64, and 'tested' has no float64: it computes it as float32; make it float32, or keep to values that fit"
)
LESS = "'0' is a {} in float32, and 'tested' does not compute it in float32: {}"
RANGE = (
    "precision={!r} was asked for, and 'tested' does not have bfloat16's range in matrix products: matrix products end"
    " at 65504"
)
CASES: dict[str, tuple[dict[str, northbridge.Claim], Callable[..., None], tuple[Any, ...], str | None]] = {
    "a parameter": (
        {"float64": NO_FLOAT64},
        warn_of_module,
        (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, dtype=torch.float64)),),
        WIDE.format("the parameter '1.weight'"),
    ),
    "a buffer": (
        {"float64": NO_FLOAT64},
        warn_of_module,
        (torch.nn.BatchNorm1d(2, affine=False, dtype=torch.float64),),
        WIDE.format("the buffer 'running_mean'"),
    ),
    **{
        name: ({"float64": NO_FLOAT64}, warn_of_batch, (batch,), WIDE.format("a tensor of shape (2, 3) in the batch"))
        for name, batch in {
            "a tensor": DOUBLE,
            "one in a list": [torch.zeros(1), (DOUBLE,)],
            "one in a dictionary": {"name": "x", "inputs": {"left": DOUBLE}},
        }.items()
    },
    "a convolution": (
        {"float32_convolutions": IN_FLOAT16},
        warn_of_module,
        (CONVNET,),
        LESS.format("convolution", "they are computed in float16"),
    ),
    "a linear layer": (
        {"float32_products": northbridge.no("it reads ten bits")},
        warn_of_module,
        (torch.nn.Sequential(torch.nn.Linear(2, 2)),),
        LESS.format("linear layer", "it reads ten bits"),
    ),
    **{
        word: (
            {"bfloat16_range": NO_RANGE},
            warn_of_module,
            (torch.nn.Linear(1, 1), word),
            RANGE.format(word) if "bf16" in word else None,
        )
        for word in ("bf16-mixed", "bf16-true", "16-mixed", "32-true")
    },
    "no counter": ({"int64": NO_INT64}, warn_of_module, (torch.nn.BatchNorm1d(2),), None),
    **{
        f"nothing {claim.answer}": (
            {"float64": claim, "int64": claim},
            warn_of_module,
            (torch.nn.BatchNorm1d(2, dtype=torch.float64),),
            None,
        )
        for claim in (northbridge.yes, northbridge.unknown)
    },
    "no convolution": ({"float32_convolutions": IN_FLOAT16}, warn_of_module, (torch.nn.Linear(1, 1),), None),
    "none in float32": (
        {"float32_convolutions": IN_FLOAT16},
        warn_of_module,
        (torch.nn.Conv1d(1, 1, 1, dtype=torch.bfloat16), "bf16-true"),
        None,
    ),
    "none that autocast lowers": ({"float32_convolutions": IN_FLOAT16}, warn_of_module, (CONVNET, "16-mixed"), None),
    "no other dtypes": ({"float64": NO_FLOAT64, "int64": NO_INT64}, warn_of_batch, (OTHERS,), None),
    "no tensors": ({"int64": NO_INT64}, warn_of_batch, ({"text": ["a", "b"], "number": 2**40},), None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_computed_as_it_is_is_told_once(case: str) -> None:
    claims, warn, given, said = CASES[case]
    backend = make(**claims)

    assert told(lambda: warn(backend, *given)) == [said] * (said is not None)
    assert told(lambda: warn(backend, *given)) == []


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


def test_spectral_norm_is_not_moved_by_set_up() -> None:
    """It does whenever its weight is read, and would train to other numbers than on the CPU."""
    layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3))
    before = [each.clone() for each in layer.buffers()]
    backend = make(float32_products=northbridge.no("it reads ten bits"))

    assert len(told(lambda: warn_of_module(backend, torch.nn.Sequential(layer)))) == 1
    assert all(map(torch.equal, before, layer.buffers()))


# --- In a Trainer and in a Fabric


@pytest.mark.parametrize(("denied", "first"), [(True, True), (False, True), (True, False)])
def test_the_first_rank_warns_of_its_model_and_its_batches(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, denied: bool, first: bool
) -> None:
    """A Fabric of its model at set-up. What the card denies counts, and not what its family claims."""
    if denied:
        monkeypatch.setattr(
            type(northbridge.load("cpu_sim").device),
            "capabilities",
            lambda _, claimed: replace(claimed, float64=NO_FLOAT64, int64=NO_INT64, bfloat16_range=NO_RANGE),
        )
    more = {"precision": "bf16-mixed", **({"max_steps": 2} if namespace.is_trainer else {})}
    host = build(accelerator="cpu_sim", devices=1, **more)
    monkeypatch.setattr(type(host.strategy), "is_global_zero", first)
    layer = torch.nn.Linear(2, 2, dtype=torch.float64)

    said = told(partial(train, namespace, host, layer) if namespace.is_trainer else partial(host.setup_module, layer))

    named = "layer.weight" if namespace.is_trainer else "weight"
    parameter = f"the parameter '{named}' is float64, and 'cpu_sim' has no float64: it computes it as float32"
    batch = "a tensor of shape (1,) in the batch is int64, and 'cpu_sim' has no int64: it holds it as int32"
    expected = [parameter, RANGE.format("bf16-mixed").replace("tested", "cpu_sim"), *[batch] * namespace.is_trainer]
    assert [each.partition(";")[0] for each in said] == (expected if denied and first else [])


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
