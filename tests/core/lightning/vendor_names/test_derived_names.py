"""Classes that users derive from vendors' names."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, of_trainers, refusal
from tests.core.lightning.vendor_names.test_draft import (
    SimAccelerator,
    SimCheckpointIO,
    SimDDPStrategy,
    SimPrecision,
    SimProfiler,
    SimSingleStrategy,
)

from northbridge.errors import ArgumentsError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace

pytestmark = [pytest.mark.usefixtures("chip"), pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")]


class Summing(SimDDPStrategy):
    strategy_name = "summing"

    def __init__(self, reduce_op: str = "sum", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reduce_op = reduce_op
        self.called: list[str] = []

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        self.called.append("reduce")
        above: Any = super()
        return above.reduce(tensor, group, self.reduce_op)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
        self.called.append("step")
        above: Any = super()
        return above.optimizer_step(*args, **kwargs)


class Waiting(SimSingleStrategy):
    def barrier(self, *args: Any, **kwargs: Any) -> str:
        above: Any = super()
        above.barrier(*args, **kwargs)
        return "waited"


class Counting(SimAccelerator):
    ended = 0

    def teardown(self) -> None:
        self.ended += 1
        above: Any = super()
        above.teardown()


class Noting(SimCheckpointIO):
    saved: Any = None

    def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
        self.saved = path
        above: Any = super()
        above.save_checkpoint(checkpoint, path, storage_options)


class Describing(SimProfiler):
    def summary(self) -> str:
        above: Any = super()
        return f"mine: {above.summary()}"


class Clipping(SimPrecision):
    clips = 0

    def clip_gradients(self, *args: Any, **kwargs: Any) -> None:
        self.clips += 1
        above: Any = super()
        above.clip_gradients(*args, **kwargs)


@pytest.fixture
def own_group() -> Iterator[None]:
    """End the process group of the test's run."""
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("own_group")
@of_trainers
def test_overridden_methods_are_called_in_a_fit(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    for each in NAMESPACES:  # a precision derives from Lightning's of each; those of another do nothing here
        importlib.import_module(each)
    boring: Any = namespace.module("demos.boring_classes")
    strategy, accelerator = Summing("sum", find_unused_parameters=False), Counting()
    plugins = [Noting(), Clipping("bf16-mixed")]

    trainer = build(
        accelerator=accelerator,
        strategy=strategy,
        devices=1,
        plugins=plugins,
        max_steps=2,
        limit_val_batches=0,
        gradient_clip_val=1.0,
    )
    trainer.fit(boring.BoringModel())
    trainer.save_checkpoint(tmp_path / "file.ckpt")

    assert trainer.strategy is strategy
    assert trainer.accelerator is accelerator
    assert isinstance(strategy, (Summing, classes(namespace).ddp))
    assert strategy._ddp_kwargs["find_unused_parameters"] is False
    assert strategy.called.count("step") == 2
    assert accelerator.ended == 1
    assert trainer.strategy.checkpoint_io is plugins[0]
    assert plugins[0].saved == tmp_path / "file.ckpt"
    assert trainer.precision_plugin is plugins[1]
    assert plugins[1].clips == 2
    assert type(plugins[1]).forward_context is namespace.module("plugins").MixedPrecision.forward_context


def test_a_derived_strategy_becomes_both_classes(namespace: Namespace, build: Build) -> None:
    strategy = build(strategy=Waiting()).strategy

    assert isinstance(strategy, Waiting)
    assert isinstance(strategy, SimSingleStrategy)
    assert isinstance(strategy, classes(namespace).single_device)
    assert strategy.barrier() == "waited"
    assert build(strategy=strategy).strategy is strategy  # the next Trainer's


def test_a_run_without_it_is_not_an_instance(build: Build) -> None:
    trainer = build(accelerator="cpu_sim", devices=2, strategy="ddp")

    assert isinstance(trainer.strategy, SimDDPStrategy)
    assert not isinstance(trainer.strategy, Summing)
    assert not isinstance(trainer.strategy.accelerator, Counting)
    assert not isinstance(trainer.strategy.checkpoint_io, Noting)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_a_derived_object_is_copied_and_pickled(namespace: Namespace, build: Build, duplicate: Any) -> None:
    before = duplicate(Summing("max"))
    after = build(strategy=Summing("max"), accelerator=Counting(), devices=2).strategy

    clone = duplicate(after)

    assert (type(before), before.reduce_op) == (Summing, "max")
    assert (type(clone), clone.reduce_op) == (type(after), "max")
    assert type(clone.accelerator) is type(after.accelerator)
    assert isinstance(clone.accelerator, Counting)
    assert str(clone.root_device) == "cpu_sim:0"


def test_a_derived_strategy_can_be_registered(namespace: Namespace, build: Build) -> None:
    registry = namespace.strategy_registry
    registry.register("summing", Summing, description="sums", reduce_op="max", checkpoint_io=Noting())
    try:
        strategy = build(strategy="summing", accelerator=SimAccelerator(), devices=1).strategy
    finally:
        registry.remove("summing")

    assert isinstance(strategy, Summing)
    assert (strategy.strategy_name, strategy.reduce_op) == ("summing", "max")
    assert isinstance(strategy.checkpoint_io, Noting)


def test_a_class_that_drops_its_arguments_is_refused() -> None:
    class Silent(SimDDPStrategy):
        def __init__(self) -> None:
            self.patience = 3

    assert refusal(ArgumentsError, Silent) == "Silent.__init__() does not call super().__init__(). Fix: call it first"


@of_trainers
def test_a_derived_profiler_becomes_lightnings(namespace: Namespace, build: Build) -> None:
    profiler = Describing(filename="fit")

    found = build(accelerator="cpu_sim", devices=1, profiler=profiler).profiler

    assert found is profiler
    assert isinstance(found, (Describing, namespace.module("profilers").PyTorchProfiler))
    assert (found.filename, found.summary()[:5]) == ("fit", "mine:")
