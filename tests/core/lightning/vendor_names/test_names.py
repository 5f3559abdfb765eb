from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, of_fabrics, of_trainers, refusal
from tests.core.lightning.vendor_names.test_draft import (
    OtherDDPStrategy,
    SimAccelerator,
    SimCheckpointIO,
    SimDDPStrategy,
    SimSingleStrategy,
)

import northbridge
from northbridge.errors import ArgumentsError, BackendNotFoundError, DevicesError, UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.vendor_names import names


class SimPrecision(northbridge.PrecisionName, backend="cpu_sim"):
    positional = ("precision", "device", "recipe")
    without_meaning = {"recipe": "leave it out"}  # noqa: RUF012
    words = {"bf16": "bf16-mixed", "bf16-mixed": "bf16-mixed", "32-true": "32-true"}  # noqa: RUF012


@pytest.fixture(autouse=True)
def nothing_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_warned", set())


def devices(strategy: Any) -> list[str]:
    return [str(device) for device in strategy.parallel_devices]


# --- What a name becomes


def test_a_ddp_strategy_becomes_ours_with_its_arguments(namespace: Namespace, build: Build) -> None:
    name = SimDDPStrategy(find_unused_parameters=True, timeout=timedelta(seconds=77), start_method="spawn")

    strategy = build(strategy=name, devices=2).strategy

    assert strategy is name
    assert type(strategy) is classes(namespace).ddp
    assert strategy._ddp_kwargs == {"find_unused_parameters": True}
    assert (strategy._timeout, strategy._start_method) == (timedelta(seconds=77), "spawn")
    assert strategy.accelerator.name() == "cpu_sim"


def test_a_single_device_strategy_becomes_ours(namespace: Namespace, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", strategy=SimSingleStrategy(), devices=[3]).strategy

    assert type(strategy) is classes(namespace).single_device
    assert str(strategy.root_device) == "cpu_sim:3"
    assert str(build(strategy=SimSingleStrategy()).strategy.root_device) == "cpu_sim:0"


def test_checkpoint_io_becomes_ours_in_every_place(namespace: Namespace, build: Build) -> None:
    alone, listed, inside = SimCheckpointIO(), SimCheckpointIO(), SimCheckpointIO()

    built = [
        build(accelerator="cpu_sim", devices=1, plugins=alone),
        build(accelerator="cpu_sim", devices=1, plugins=[listed]),
        build(strategy=SimSingleStrategy(checkpoint_io=inside), devices=1),
    ]

    assert [each.strategy.checkpoint_io for each in built] == [alone, listed, inside]
    assert {type(each) for each in (alone, listed, inside)} == {classes(namespace).checkpoint_io}
    assert isinstance(alone, SimCheckpointIO)


@of_trainers
def test_checkpoint_io_in_the_asynchronous_one_becomes_ours(namespace: Namespace, build: Build) -> None:
    inner = SimCheckpointIO()
    outer = namespace.module("plugins.io").AsyncCheckpointIO(inner)

    strategy = build(accelerator="cpu_sim", devices=1, plugins=[outer]).strategy

    assert strategy.checkpoint_io is outer
    assert type(inner) is classes(namespace).checkpoint_io


def test_a_checkpoint_io_chooses_no_accelerator(build: Build) -> None:
    assert build(accelerator="cpu", devices=1, plugins=[SimCheckpointIO()]).strategy.root_device.type == "cpu"


@pytest.mark.parametrize(("word", "meant"), [("bf16", "bf16-mixed"), ("bf16-mixed", "bf16-mixed"), ("32-true", None)])
@pytest.mark.parametrize("place", ["plugins", "strategy"])
def test_precision_is_stock(namespace: Namespace, build: Build, word: str, meant: str | None, place: str) -> None:
    name = SimPrecision(word)
    inside = SimSingleStrategy(precision_plugin=name)

    strategy = build(devices=1, **({"plugins": [name]} if place == "plugins" else {"strategy": inside})).strategy

    precision = strategy.precision_plugin if namespace.is_trainer else strategy.precision
    stock = namespace.module("plugins")
    assert type(precision) is (stock.MixedPrecision if meant else stock.Precision)
    assert getattr(precision, "device", None) == ("cpu_sim" if meant else None)
    assert isinstance(precision, SimPrecision)


def test_stock_precision_in_a_vendors_strategy_stays(namespace: Namespace, build: Build) -> None:
    build(accelerator="cpu_sim", devices=1)
    stock = namespace.module("plugins").MixedPrecision("bf16-mixed", "cpu_sim")

    strategy = build(strategy=SimDDPStrategy(precision_plugin=stock), devices=2).strategy

    assert (strategy.precision_plugin if namespace.is_trainer else strategy.precision) is stock


def test_names_that_a_strategy_holds_are_taken_with_it(namespace: Namespace, build: Build) -> None:
    accelerator = SimAccelerator()

    strategy = build(strategy=SimDDPStrategy(accelerator, checkpoint_io=SimCheckpointIO()), devices=2).strategy

    assert strategy.accelerator is accelerator
    assert type(strategy.accelerator) is classes(namespace).accelerator.of("cpu_sim")
    assert type(strategy.checkpoint_io) is classes(namespace).checkpoint_io


def test_what_a_name_has_become_can_be_given_to_the_next_host(namespace: Namespace, build: Build) -> None:
    name = SimAccelerator()
    build(accelerator=name, devices=1)

    again = build(accelerator=name, devices=1).strategy
    for other in NAMESPACES.values():
        importlib.import_module(other.name)
        name_there = SimAccelerator().settle(other)
        assert build(accelerator=name_there, devices=1).strategy.root_device.type == "cpu_sim"

    assert again.accelerator is name


# --- Devices of a strategy


def listed(build: Build, *indices: int | None) -> list[torch.device]:
    build(accelerator="cpu_sim", devices=1)  # from here on, torch knows the device
    return [torch.device("cpu_sim") if each is None else torch.device("cpu_sim", each) for each in indices]


@pytest.mark.parametrize(
    ("given", "asked", "found"),
    [
        ((None, None, None), "auto", (0, 1, 2)),
        ((None, None), [5, 3], (5, 3)),
        ((None, None), "5,3", (5, 3)),
        *(((4, 6), asked, (4, 6)) for asked in ("auto", 2, [4, 6], "4,6")),
    ],
)
def test_devices_of_a_strategy(
    namespace: Namespace, build: Build, given: tuple[int | None, ...], asked: Any, found: tuple[int, ...]
) -> None:
    """Without an index they mean one for each local rank, or those that devices= names."""
    parallel = listed(build, *given)
    stock = namespace.module("strategies").DDPStrategy(parallel_devices=parallel)

    ours = build(strategy=SimDDPStrategy(parallel_devices=parallel), devices=asked).strategy
    theirs = build(accelerator="cpu_sim", strategy=stock, devices=asked).strategy

    assert devices(ours) == devices(theirs) == [f"cpu_sim:{each}" for each in found]


CONTRADICTS = "parallel_devices=['cpu_sim:4', 'cpu_sim:6'] contradicts devices={!r}. Fix: leave one out"


@pytest.mark.parametrize(
    ("given", "asked", "said"),
    [
        *(((4, 6), asked, CONTRADICTS.format(asked)) for asked in (1, -1, [0, 1], "0,1")),
        ((None, 1), "auto", "some have an index and some not"),
        ((None,) * 9, "auto", "this machine has 8"),
        ((0, 9), "auto", "this machine has 8"),
    ],
)
def test_devices_of_a_strategy_are_refused(build: Build, given: tuple[int | None, ...], asked: Any, said: str) -> None:
    strategy = SimDDPStrategy(parallel_devices=listed(build, *given))

    assert said in refusal(DevicesError, build, strategy=strategy, devices=asked)


# --- Contradictions


@pytest.mark.parametrize("accelerator", ["cpu", "another", "gpu"])
def test_a_strategy_for_another_accelerator_is_refused(build: Build, accelerator: str) -> None:
    said = refusal(UnsupportedError, build, accelerator=accelerator, devices=2, strategy=SimDDPStrategy())

    assert said == f"SimDDPStrategy is for 'cpu_sim', not for accelerator={accelerator!r}. Fix: accelerator='cpu_sim'"


def test_a_precision_for_another_accelerator_is_refused(namespace: Namespace, build: Build) -> None:
    cpu = namespace.module("accelerators").CPUAccelerator()

    with pytest.raises(UnsupportedError, match="SimPrecision is for 'cpu_sim', not for accelerator='CPUAccelerator'"):
        build(accelerator=cpu, devices=1, plugins=[SimPrecision("bf16-mixed")])


def test_a_name_of_a_backend_that_nobody_brings_is_refused(build: Build) -> None:
    with pytest.raises(BackendNotFoundError, match="no backend 'another' is installed"):
        build(strategy=OtherDDPStrategy())


def test_two_precisions_that_differ_are_refused(build: Build) -> None:
    said = refusal(ArgumentsError, build, devices=1, precision="32-true", plugins=[SimPrecision("bf16-mixed")])

    assert said == "precision='32-true' contradicts SimPrecision(precision='bf16-mixed'). Fix: leave one out"
    build(devices=1, precision="bf16-mixed", plugins=[SimPrecision("bf16-mixed")])  # they agree


@of_fabrics
def test_trainers_argument_is_refused_in_a_fabric(build: Build) -> None:
    said = refusal(ArgumentsError, build, devices=2, strategy=SimDDPStrategy(model_averaging_period=3))

    assert said == (
        "SimDDPStrategy(model_averaging_period=…): the strategies of a Fabric have no such argument. Fix: leave it out"
    )


# --- Arguments


def test_positional_arguments_have_lightnings_order(namespace: Namespace) -> None:
    if namespace.is_trainer:
        stock = namespace.module("strategies").DDPStrategy
        assert SimDDPStrategy.positional == tuple(inspect.signature(stock.__init__).parameters)[1:-1]

    name = SimDDPStrategy(None, None, "an environment")

    assert name.arguments == {"accelerator": None, "parallel_devices": None, "cluster_environment": "an environment"}


NO_LIST = "SimDDPStrategy(parallel_devices={!r}) is not a list of torch.device. Fix: devices=8 for the Trainer"
WRONG: list[tuple[Callable[[], object], str]] = [
    (
        lambda: SimDDPStrategy(find_unused_parameter=True),
        (
            "SimDDPStrategy() has no argument find_unused_parameter=; did you mean find_unused_parameters=?; it accepts"
            " accelerator, parallel_devices, cluster_"
        ),
    ),
    (lambda: SimCheckpointIO(xyz=1), "SimCheckpointIO() has no argument xyz=; it accepts none"),
    (lambda: SimAccelerator(1), "SimAccelerator() got 1 positional arguments; it accepts none"),
    (lambda: SimSingleStrategy("cpu", device="cpu"), "SimSingleStrategy() got device= twice, by position and by name"),
    (lambda: SimDDPStrategy(parallel_devices=8), NO_LIST.format(8)),
    (lambda: SimDDPStrategy(parallel_devices=["cpu_sim"]), NO_LIST.format(["cpu_sim"])),
    (
        lambda: SimPrecision("bf16-mixd"),
        (
            "SimPrecision(precision='bf16-mixd') is not a precision; known: bf16, bf16-mixed, 32-true."
            " Did you mean 'bf16-mixed'?"
        ),
    ),
]


@pytest.mark.parametrize(("make", "said"), WRONG)
def test_wrong_arguments_are_refused(make: Callable[[], object], said: str) -> None:
    assert refusal(ArgumentsError, make).startswith(said)


def test_an_argument_without_a_meaning_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not again by a rank that another started."""
    with monkeypatch.context() as rank:
        rank.setenv("LOCAL_RANK", "1")
        SimPrecision("bf16-mixed", recipe=1)  # a warning is an error here
    with pytest.warns(UserWarning, match="no meaning any more") as caught:
        SimPrecision("bf16-mixed", recipe=1)
    again = SimPrecision("bf16-mixed", "cpu_sim", 1)

    assert [str(each.message) for each in caught] == ["SimPrecision(recipe=…) has no meaning any more: leave it out"]
    assert again.arguments == {"precision": "bf16-mixed"}
    assert caught[0].filename == __file__  # the line to change


# --- What Northbridge does not drive


look_up = northbridge.unsupported_names(
    "northbridge_sim", backend="cpu_sim", instead={"SimLoader": ("data_loaders", "use torch's")}
)


def test_unsupported_name_can_be_imported_and_asked() -> None:
    loader = look_up("SimLoader")

    assert isinstance(loader, type)
    assert loader.__name__ == "SimLoader"
    assert not isinstance(object(), loader)
    assert loader is look_up("SimLoader")
    with pytest.raises(AttributeError, match=r"^module 'northbridge_sim' has no attribute 'SimSaver'$"):
        look_up("SimSaver")


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (None, "SimLoader: 'data_loaders' on 'cpu_sim' is not supported: it has no decoder. Fix: use torch's"),
        (northbridge.unknown, "SimLoader: 'data_loaders' on 'cpu_sim' is unknown. Fix: use torch's"),
        (
            northbridge.yes,
            (
                "SimLoader is not a class of Northbridge, which has 'data_loaders' on 'cpu_sim' without it."
                " Fix: use torch's"
            ),
        ),
    ],
)
def test_to_use_it_is_refused_with_the_reason_and_what_to_do(claims: Claims, claim: Any, said: str) -> None:
    if claim is not None:
        claims(data_loaders=claim)

    assert refusal(UnsupportedError, look_up("SimLoader"), 1, batch_size=2, capability="data_loaders") == said
