"""What names answer before a Trainer or a Fabric gets them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, refusal

import northbridge
from northbridge.errors import ArgumentValueError, WrongDeviceError
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.vendor_names.names import namespace_at_hand

pytestmark = pytest.mark.usefixtures("chip")


class SimAccelerator(northbridge.AcceleratorName, backend="cpu_sim"):
    pass


class SimDDPStrategy(northbridge.DDPStrategyName, backend="cpu_sim"):
    pass


class SimSingleStrategy(northbridge.SingleDeviceStrategyName, backend="cpu_sim"):
    pass


class SimCheckpointIO(northbridge.CheckpointIOName, backend="cpu_sim"):
    pass


class SimPrecision(northbridge.PrecisionName, backend="cpu_sim"):
    pass


class SimProfiler(northbridge.ProfilerName, backend="cpu_sim"):
    positional = ("dirpath", "filename")


def test_profiler_answers_with_its_arguments() -> None:
    assert SimProfiler(filename="fit").filename == "fit"


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


def test_what_a_script_adds_to_an_answer_stays(build: Build, namespace: Namespace) -> None:
    strategy = SimDDPStrategy()
    strategy._ddp_kwargs["static_graph"] = True
    strategy.patience = 3  # type: ignore[attr-defined]  # a script may set what it likes
    if not namespace.is_trainer:  # a draft is a Trainer's where both are imported
        pytest.skip("a Fabric's strategy is another class than the draft's")

    found = build(accelerator="cpu_sim", devices=2, strategy=strategy).strategy

    if namespace is namespace_at_hand():
        assert found._ddp_kwargs == {"static_graph": True}
    assert found.patience == 3


def test_accelerator_answers_about_a_device() -> None:
    accelerator = SimAccelerator()

    accelerator.setup_device(torch.device("cpu_sim", 0))

    assert accelerator.auto_device_count() == 8
    assert "allocated_bytes.all.current" in accelerator.get_device_stats("cpu_sim:0")
    with pytest.raises(WrongDeviceError, match="root device is 'cpu'") as refusal:
        accelerator.setup_device(torch.device("cpu"))
    assert isinstance(refusal.value, ValueError)


@pytest.mark.parametrize("word", ["bf16", "bf16-mixed", "32-true"])
def test_precision_computes_as_in_a_run(word: str) -> None:
    precision = SimPrecision(word, device="cpu_sim")

    with precision.forward_context():
        product = torch.ones(2, 2, device="cpu_sim") @ torch.ones(2, 2, device="cpu_sim")

    assert precision.device == "cpu_sim"
    assert product.dtype == (torch.float32 if word == "32-true" else torch.bfloat16)


def test_precision_for_another_device_is_refused() -> None:
    said = refusal(ArgumentValueError, SimPrecision, "bf16-mixed", device="cuda")

    assert said == "SimPrecision(device='cuda') is for 'cpu_sim'. Fix: omit it"


def test_checkpoint_io_writes_and_reads(tmp_path: Any) -> None:
    plugin = SimCheckpointIO()

    plugin.save_checkpoint({"weight": torch.ones(1, device="cpu_sim")}, tmp_path / "file.ckpt")

    assert plugin.load_checkpoint(tmp_path / "file.ckpt") == {"weight": torch.ones(1)}


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


def test_several_plugins_are_taken(parse: Callable[..., Any]) -> None:
    cli = parse(
        f"--trainer.plugins+={__name__}.SimPrecision",
        f"--trainer.plugins+={__name__}.SimCheckpointIO",
    )

    assert isinstance(cli.trainer.precision_plugin, SimPrecision)
    assert isinstance(cli.trainer.strategy.checkpoint_io, SimCheckpointIO)


def test_a_file_names_a_strategy(parse: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"trainer:\n  strategy:\n    class_path: {__name__}.SimSingleStrategy\n")

    cli = parse(f"--config={file}")

    assert isinstance(cli.trainer.strategy, SimSingleStrategy)


def test_a_wrong_precision_is_refused(parse: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(f"--trainer.plugins={__name__}.SimPrecision", "--trainer.plugins.accuracy=bf16-mixed")

    assert "accuracy" in capsys.readouterr().err
