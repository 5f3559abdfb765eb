from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from northbridge.errors import FaceError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import FACES, Face

Build = Callable[..., Any]


def other_faces(face: Face) -> list[Face]:
    return [each for each in FACES.values() if each != face]


def twin_of(face: Face) -> Face:
    """The same host in the other distribution."""
    (twin,) = [each for each in other_faces(face) if each.is_trainer == face.is_trainer]
    importlib.import_module(twin.name)
    return twin


def test_an_accelerator_of_any_other_face_becomes_its_twin(face: Face, build: Build) -> None:
    for other in other_faces(face):
        foreign = importlib.import_module(other.home).Accelerator("cpu_sim")

        strategy = build(accelerator=foreign, devices=1).strategy

        assert type(strategy.accelerator) is classes(face).accelerator.of("cpu_sim")


def test_a_ddp_strategy_of_the_other_distribution_becomes_its_twin_with_its_arguments(face: Face, build: Build) -> None:
    foreign = importlib.import_module(twin_of(face).home).DDPStrategy(
        find_unused_parameters=True, timeout=timedelta(seconds=77), start_method="spawn"
    )

    strategy = build(accelerator="cpu_sim", devices=2, strategy=foreign).strategy

    assert type(strategy) is classes(face).ddp
    assert strategy._ddp_kwargs == {"find_unused_parameters": True}
    assert (strategy._timeout, strategy._start_method) == (timedelta(seconds=77), "spawn")


def test_a_strategy_that_carries_its_accelerator_brings_the_accelerators_twin(face: Face, build: Build) -> None:
    home = importlib.import_module(twin_of(face).home)
    foreign = home.DDPStrategy(accelerator=home.Accelerator("cpu_sim"))

    strategy = build(devices=2, strategy=foreign).strategy

    assert type(strategy) is classes(face).ddp
    assert type(strategy.accelerator) is classes(face).accelerator.of("cpu_sim")


@pytest.mark.parametrize("wrap", [lambda io: io, lambda io: [io], lambda io: (io,)], ids=["bare", "list", "tuple"])
def test_a_checkpoint_io_of_another_face_becomes_its_twin(face: Face, build: Build, wrap: Callable[[Any], Any]) -> None:
    foreign = importlib.import_module(twin_of(face).home).CheckpointIO()

    strategy = build(accelerator="cpu_sim", devices=1, plugins=wrap(foreign)).strategy

    assert type(strategy.checkpoint_io) is classes(face).checkpoint_io


@pytest.mark.parametrize("name", ["DDPStrategy", "SingleDeviceStrategy"])
def test_a_strategy_of_a_trainer_in_a_fabric_is_refused_with_the_right_import_and_the_other_way_round(
    face: Face, build: Build, name: str
) -> None:
    build(accelerator="cpu_sim", devices=1)
    for other in other_faces(face):
        if other.is_trainer == face.is_trainer:
            continue
        importlib.import_module(other.name)
        cls = getattr(importlib.import_module(other.home), name)
        foreign = cls() if name == "DDPStrategy" else cls(device="cpu_sim:0")

        with pytest.raises(FaceError) as refusal:
            build(accelerator="cpu_sim", devices=1, strategy=foreign)

        assert str(refusal.value) == (
            f"{other.home}.{name} was given to a {face.host} of {face.name}: write `from {face.home} import {name}`"
        )


def test_a_stock_strategy_of_the_other_distribution_is_refused_with_the_right_import(face: Face, build: Build) -> None:
    twin = twin_of(face)
    foreign = twin.module("strategies").DDPStrategy()

    with pytest.raises(FaceError) as refusal:
        build(accelerator="cpu_sim", devices=2, strategy=foreign)

    assert str(refusal.value) == (
        f"{twin.name}.strategies.ddp.DDPStrategy was given to a {face.host} of {face.name}, which has a class of its"
        f" own: write `from {face.name}.strategies import DDPStrategy`"
    )


@pytest.mark.parametrize("wrap", [lambda plugin: plugin, lambda plugin: [plugin]], ids=["bare", "list"])
def test_a_stock_plugin_of_the_other_distribution_is_refused_with_the_right_import(
    face: Face, build: Build, wrap: Callable[[Any], Any]
) -> None:
    foreign = twin_of(face).module("plugins").MixedPrecision("bf16-mixed", "cpu_sim")

    with pytest.raises(FaceError, match=rf"write `from {face.name}\.plugins import MixedPrecision`$"):
        build(accelerator="cpu_sim", devices=1, plugins=wrap(foreign))


def test_a_cluster_environment_of_the_fabric_below_a_trainer_is_no_stranger(face: Face, build: Build) -> None:
    environment = face.fabric_module("plugins.environments").LightningEnvironment()

    strategy = build(accelerator="cpu_sim", devices=2, plugins=[environment]).strategy

    assert strategy.cluster_environment is environment


def test_what_is_foreign_in_a_run_of_lightnings_own_is_lightnings_affair(face: Face, build: Build) -> None:
    foreign = twin_of(face).module("strategies").DDPStrategy()

    with pytest.raises(ValueError, match="You selected an invalid strategy name"):
        build(accelerator="cpu", devices=2, strategy=foreign)
