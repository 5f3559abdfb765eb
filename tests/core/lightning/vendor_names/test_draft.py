"""What names answer before a Trainer or a Fabric gets them, and classes that users derive from them."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, of_trainers, refusal

import northbridge
from northbridge.errors import ArgumentsError, WrongDeviceError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.vendor_names.names import namespace_at_hand

pytestmark = [pytest.mark.usefixtures("chip"), pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")]


class SimAccelerator(northbridge.AcceleratorName, backend="cpu_sim"):
    pass


class SimDDPStrategy(northbridge.DDPStrategyName, backend="cpu_sim"):
    pass


class OtherDDPStrategy(northbridge.DDPStrategyName, backend="another"):
    pass


class SimSingleStrategy(northbridge.SingleDeviceStrategyName, backend="cpu_sim"):
    pass


class SimCheckpointIO(northbridge.CheckpointIOName, backend="cpu_sim"):
    pass


class SimPrecision(northbridge.PrecisionName, backend="cpu_sim"):
    pass


class SimProfiler(northbridge.ProfilerName, backend="cpu_sim"):
    positional = ("dirpath", "filename")


def test_root_device_has_no_index_before_a_run() -> None:
    assert SimSingleStrategy().root_device == torch.device("cpu_sim")
    assert SimDDPStrategy().root_device == torch.device("cpu_sim")
    assert SimDDPStrategy(parallel_devices=[torch.device("cpu_sim", 3)]).root_device == torch.device("cpu_sim", 3)


def test_ddp_strategy_answers_what_a_run_would() -> None:
    strategy = SimDDPStrategy(bucket_cap_mb=3, checkpoint_io=SimCheckpointIO(), precision_plugin=SimPrecision("bf16"))

    assert strategy.process_group_backend == strategy._get_process_group_backend() == "simccl"
    assert len(strategy.parallel_devices) == SimAccelerator.auto_device_count()
    assert strategy._ddp_kwargs == {"bucket_cap_mb": 3}
    assert isinstance(strategy.checkpoint_io, SimCheckpointIO)
    assert isinstance(strategy.accelerator, SimAccelerator)
    assert strategy.precision_plugin.precision == "bf16-mixed"


@of_trainers
def test_what_a_script_adds_to_an_answer_stays(build: Build, namespace: Namespace) -> None:
    strategy = SimDDPStrategy()
    strategy._ddp_kwargs["static_graph"] = True
    strategy.patience = 3  # type: ignore[attr-defined]  # a script may set what it likes

    found = build(accelerator="cpu_sim", devices=2, strategy=strategy).strategy

    if namespace is namespace_at_hand():
        assert found._ddp_kwargs == {"static_graph": True}
    assert found.patience == 3


def test_accelerator_answers_about_a_device() -> None:
    accelerator = SimAccelerator()

    accelerator.setup_device(torch.device("cpu_sim", 0))

    assert "allocated_bytes.all.current" in accelerator.get_device_stats("cpu_sim:0")
    with pytest.raises(WrongDeviceError, match="root device is 'cpu'"):
        accelerator.setup_device(torch.device("cpu"))


@pytest.mark.parametrize("word", ["bf16", "bf16-mixed", "32-true"])
def test_precision_computes_as_in_a_run(word: str) -> None:
    precision = SimPrecision(word, device="cpu_sim")

    with precision.forward_context():
        product = torch.ones(2, 2, device="cpu_sim") @ torch.ones(2, 2, device="cpu_sim")

    assert precision.device == "cpu_sim"
    assert SimPrecision(32).precision == "32-true"  # a number, as for a Trainer
    assert product.dtype == (torch.float32 if word == "32-true" else torch.bfloat16)


def test_an_unknown_attribute_is_pythons_error() -> None:
    assert not hasattr(SimDDPStrategy(), "barier")
    with pytest.raises(AttributeError, match="'DDPStrategy' object has no attribute 'barier'"):
        SimDDPStrategy().barier()


def test_names_are_of_lightnings_types(namespace: Namespace) -> None:
    plugins = namespace.module("plugins")

    assert isinstance(SimPrecision(), plugins.Precision)
    assert isinstance(SimCheckpointIO(), plugins.CheckpointIO)
    assert isinstance(SimAccelerator(), namespace.module("accelerators").Accelerator)
    assert isinstance(SimDDPStrategy(), namespace.module("strategies").Strategy)


def test_namespace_at_hand_is_a_trainers_that_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMESPACES:
        importlib.import_module(name)
    assert namespace_at_hand().name == "lightning.pytorch"

    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    assert namespace_at_hand().name == "pytorch_lightning"
    for name in NAMESPACES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert namespace_at_hand().name == "lightning.pytorch"


# --- LightningCLI, with names by class path


@pytest.fixture
def parse(trainer_namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return the CLI after it has made the Trainer from a command line."""
    monkeypatch.setattr("sys.argv", ["train.py"])  # LightningCLI warns of pytest's own arguments
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of what Lightning calls
    cli: Any = importlib.import_module(f"{trainer_namespace.name}.cli").LightningCLI
    model = trainer_namespace.module("demos.boring_classes").BoringModel
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    own = ["--trainer.accelerator=cpu_sim", "--trainer.devices=1"]
    more = {"run": False, "trainer_defaults": quiet, "seed_everything_default": False}
    return lambda *args: cli(model, args=[*own, *args], **more)


def test_precision_is_taken_with_its_arguments(parse: Callable[..., Any]) -> None:
    cli = parse(f"--trainer.plugins={__name__}.SimPrecision", "--trainer.plugins.precision=bf16-mixed")

    assert isinstance(cli.trainer.precision_plugin, SimPrecision)
    assert cli.trainer.precision == "bf16-mixed"
    assert cli.config.trainer.plugins.class_path == f"{__name__}.SimPrecision"
    assert cli.config.trainer.plugins.init_args.precision == "bf16-mixed"


def test_a_file_names_a_strategy(parse: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"trainer:\n  strategy:\n    class_path: {__name__}.SimSingleStrategy\n")

    cli = parse(f"--config={file}")

    assert isinstance(cli.trainer.strategy, SimSingleStrategy)


# --- Classes that users derive from vendors' names


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
    several = build(accelerator="cpu_sim", devices=2, strategy="ddp").strategy
    cpus = build(accelerator="cpu", devices=1).strategy

    assert isinstance(build(accelerator="cpu_sim", devices=1).strategy, SimSingleStrategy)
    assert isinstance(several, SimDDPStrategy)
    for other in (SimSingleStrategy, OtherDDPStrategy, northbridge.DDPStrategyName, Summing):
        assert not isinstance(several, other)
    assert not isinstance(several.accelerator, Counting)
    assert not isinstance(several.checkpoint_io, Noting)
    assert not isinstance(cpus, SimSingleStrategy)
    assert not isinstance(cpus.accelerator, SimAccelerator)


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
