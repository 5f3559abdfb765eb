"""Objects of other namespaces, and of users' own classes, for a Trainer or a Fabric."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.core.lightning.conftest import Build, refusal

from northbridge.errors import NamespaceError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace

pytestmark = pytest.mark.usefixtures("chip")


def other_namespaces(namespace: Namespace) -> list[Namespace]:
    return [each for each in NAMESPACES.values() if each != namespace]


def counterpart_of(namespace: Namespace) -> Namespace:
    """The same host in the other distribution."""
    (counterpart,) = [each for each in other_namespaces(namespace) if each.is_trainer == namespace.is_trainer]
    importlib.import_module(counterpart.name)
    return counterpart


def test_an_accelerator_of_any_other_namespace_is_converted(namespace: Namespace, build: Build) -> None:
    for other in other_namespaces(namespace):
        foreign = importlib.import_module(other.home).Accelerator("cpu_sim")

        strategy = build(accelerator=foreign, devices=1).strategy

        assert type(strategy.accelerator) is classes(namespace).accelerator.of("cpu_sim")


def test_the_others_ddp_strategy_is_converted_with_arguments(namespace: Namespace, build: Build) -> None:
    foreign = importlib.import_module(counterpart_of(namespace).home).DDPStrategy(
        find_unused_parameters=True, timeout=timedelta(seconds=77), start_method="spawn"
    )

    strategy = build(accelerator="cpu_sim", devices=2, strategy=foreign).strategy

    assert type(strategy) is classes(namespace).ddp
    assert strategy._ddp_kwargs == {"find_unused_parameters": True}
    assert (strategy._timeout, strategy._start_method) == (timedelta(seconds=77), "spawn")


def test_a_strategy_brings_its_accelerators_counterpart(namespace: Namespace, build: Build) -> None:
    home = importlib.import_module(counterpart_of(namespace).home)
    foreign = home.DDPStrategy(accelerator=home.Accelerator("cpu_sim"))

    strategy = build(devices=2, strategy=foreign).strategy

    assert type(strategy) is classes(namespace).ddp
    assert type(strategy.accelerator) is classes(namespace).accelerator.of("cpu_sim")


@pytest.mark.parametrize("wrap", [lambda io: io, lambda io: [io], lambda io: (io,)], ids=["bare", "list", "tuple"])
def test_anothers_checkpoint_io_is_converted(namespace: Namespace, build: Build, wrap: Callable[[Any], Any]) -> None:
    foreign = importlib.import_module(counterpart_of(namespace).home).CheckpointIO()

    strategy = build(accelerator="cpu_sim", devices=1, plugins=wrap(foreign)).strategy

    assert type(strategy.checkpoint_io) is classes(namespace).checkpoint_io


@pytest.mark.parametrize("name", ["DDPStrategy", "SingleDeviceStrategy"])
def test_the_other_hosts_strategy_is_refused_with_the_import(namespace: Namespace, build: Build, name: str) -> None:
    build(accelerator="cpu_sim", devices=1)
    for other in other_namespaces(namespace):
        if other.is_trainer == namespace.is_trainer:
            continue
        importlib.import_module(other.name)
        cls = getattr(importlib.import_module(other.home), name)
        foreign = cls() if name == "DDPStrategy" else cls(device="cpu_sim:0")

        said = refusal(NamespaceError, build, accelerator="cpu_sim", devices=1, strategy=foreign)

        assert said == (
            f"{other.home}.{name} was given to a {namespace.host} of {namespace.name}. Fix: import"
            f" it from {namespace.home}"
        )


def test_the_others_stock_strategy_is_refused_with_the_import(namespace: Namespace, build: Build) -> None:
    counterpart = counterpart_of(namespace)
    foreign = counterpart.module("strategies").DDPStrategy()

    said = refusal(NamespaceError, build, accelerator="cpu_sim", devices=2, strategy=foreign)

    assert said == (
        f"{counterpart.name}.strategies.ddp.DDPStrategy was given to a {namespace.host} of {namespace.name}."
        f" Fix: import it from {namespace.name}.strategies"
    )


@pytest.mark.parametrize("wrap", [lambda plugin: plugin, lambda plugin: [plugin]], ids=["bare", "list"])
def test_the_others_stock_plugin_is_refused(namespace: Namespace, build: Build, wrap: Callable[[Any], Any]) -> None:
    foreign = counterpart_of(namespace).module("plugins").MixedPrecision("bf16-mixed", "cpu_sim")

    with pytest.raises(NamespaceError, match=rf"import it from {namespace.name}\.plugins$"):
        build(accelerator="cpu_sim", devices=1, plugins=wrap(foreign))


def test_fabrics_cluster_environment_is_not_foreign(namespace: Namespace, build: Build) -> None:
    environment = namespace.fabric_module("plugins.environments").LightningEnvironment()

    strategy = build(accelerator="cpu_sim", devices=2, plugins=[environment]).strategy

    assert strategy.cluster_environment is environment


def test_foreign_objects_in_lightnings_run_are_left_alone(namespace: Namespace, build: Build) -> None:
    foreign = counterpart_of(namespace).module("strategies").DDPStrategy()

    with pytest.raises(ValueError, match="You selected an invalid strategy name"):
        build(accelerator="cpu", devices=2, strategy=foreign)


# --- Strategies that users derive from Lightning's


def derived(namespace: Namespace, kind: str) -> Any:
    """A user's class, which is importable as a user's is."""
    stock: Any = getattr(namespace.module("strategies"), kind)
    name = f"{kind}Of{namespace.name.replace('.', '')}"

    class Patient(stock):  # type: ignore[misc]  # Lightning's class of this namespace
        patience = 3

        def barrier(self, *args: Any, **kwargs: Any) -> str:
            super().barrier(*args, **kwargs)
            return "waited"

    Patient.__name__ = Patient.__qualname__ = name
    Patient.__module__ = __name__
    return globals().setdefault(name, Patient)


@pytest.mark.parametrize("kind", ["DDPStrategy", "ModelParallelStrategy", "SingleDeviceStrategy"])
def test_the_users_changes_stay_over_what_the_chip_needs(namespace: Namespace, build: Build, kind: str) -> None:
    arguments: dict[str, Any] = {"device": "cpu_sim:0"} if kind == "SingleDeviceStrategy" else {}
    if kind == "ModelParallelStrategy" and not namespace.is_trainer:
        arguments["parallelize_fn"] = lambda model, mesh: model
    given = derived(namespace, kind)(**arguments)
    ours = {each.__name__: each for each in classes(namespace).strategies}[kind]

    strategy = build(accelerator="cpu_sim", devices=1 if "device" in arguments else 2, strategy=given).strategy

    assert strategy is given
    assert isinstance(strategy, ours)
    assert type(strategy).__name__ == derived(namespace, kind).__name__
    assert strategy.barrier() == "waited"
    assert str(strategy.root_device) == "cpu_sim:0"


def test_one_that_is_copied_or_pickled_is_the_same_kind(namespace: Namespace, build: Build) -> None:
    strategy = build(
        accelerator="cpu_sim", devices=2, strategy=derived(namespace, "DDPStrategy")(static_graph=True)
    ).strategy

    for other in (copy.deepcopy(strategy), pickle.loads(pickle.dumps(strategy))):
        assert type(other) is type(strategy)
        assert other._ddp_kwargs == strategy._ddp_kwargs
        assert str(other.root_device) == "cpu_sim:0"


def test_one_that_is_registered_by_name_is_built_as_it_is(namespace: Namespace, build: Build) -> None:
    namespace.strategy_registry.register("patient", derived(namespace, "DDPStrategy"), find_unused_parameters=True)
    try:
        strategy = build(accelerator="cpu_sim", devices=2, strategy="patient").strategy
    finally:
        namespace.strategy_registry.remove("patient")

    assert isinstance(strategy, classes(namespace).ddp)
    assert strategy.barrier() == "waited"
    assert strategy._ddp_kwargs == {"find_unused_parameters": True}
