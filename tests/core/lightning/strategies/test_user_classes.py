"""Strategies that users derive from Lightning's."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import pytest
from tests.core.lightning.conftest import Build

from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace

pytestmark = pytest.mark.usefixtures("chip")


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


@pytest.mark.parametrize("kind", ["DDPStrategy", "ModelParallelStrategy"])
def test_the_users_changes_stay_over_what_the_chip_needs(namespace: Namespace, build: Build, kind: str) -> None:
    if kind == "ModelParallelStrategy" and not namespace.is_trainer:
        given = derived(namespace, kind)(parallelize_fn=lambda model, mesh: model)
    else:
        given = derived(namespace, kind)()
    ours = {each.__name__: each for each in classes(namespace).strategies}[kind]

    strategy = build(accelerator="cpu_sim", devices=2, strategy=given).strategy

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


def test_one_for_a_single_device_trains_on_the_chip(namespace: Namespace, build: Build) -> None:
    strategy = build(
        accelerator="cpu_sim", devices=1, strategy=derived(namespace, "SingleDeviceStrategy")("cpu_sim:1")
    ).strategy

    assert isinstance(strategy, classes(namespace).single_device)
    assert strategy.barrier() == "waited"


def test_one_that_is_registered_by_name_is_built_as_it_is(namespace: Namespace, build: Build) -> None:
    namespace.strategy_registry.register("patient", derived(namespace, "DDPStrategy"), find_unused_parameters=True)
    try:
        strategy = build(accelerator="cpu_sim", devices=2, strategy="patient").strategy
    finally:
        namespace.strategy_registry.remove("patient")

    assert isinstance(strategy, classes(namespace).ddp)
    assert strategy.barrier() == "waited"
    assert strategy._ddp_kwargs == {"find_unused_parameters": True}


def test_one_that_derives_from_ours_is_taken_as_it_is(namespace: Namespace, build: Build) -> None:
    class Own(importlib.import_module(namespace.home).DDPStrategy):  # type: ignore[misc]  # made at run time
        pass

    assert type(build(accelerator="cpu_sim", devices=2, strategy=Own()).strategy) is Own
