"""LightningCLI with vendors' names by class path."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.core.lightning.vendor_names.test_draft import SimCheckpointIO, SimPrecision, SimSingleStrategy

from northbridge.lightning.namespaces import NAMESPACES, Namespace

pytestmark = pytest.mark.usefixtures("chip")

HERE = SimPrecision.__module__


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """LightningCLI warns of pytest's own arguments beside those that a test gives."""
    monkeypatch.setattr("sys.argv", ["train.py"])
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # of what Lightning calls


@pytest.fixture(params=[each for each in NAMESPACES.values() if each.is_trainer], ids=lambda each: each.name)
def namespace(request: pytest.FixtureRequest) -> Namespace:
    return request.param  # type: ignore[no-any-return]


def parse(namespace: Namespace, *args: str) -> Any:
    """Return the CLI after it has made the Trainer from a command line."""
    cli = importlib.import_module(f"{namespace.name}.cli").LightningCLI
    boring = namespace.module("demos.boring_classes")
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    given = ["--trainer.accelerator=cpu_sim", "--trainer.devices=1", *args]
    return cli(boring.BoringModel, run=False, args=given, trainer_defaults=quiet, seed_everything_default=False)


def test_precision_is_taken_with_its_arguments(namespace: Namespace) -> None:
    cli = parse(namespace, f"--trainer.plugins={HERE}.SimPrecision", "--trainer.plugins.precision=bf16-mixed")

    assert isinstance(cli.trainer.precision_plugin, SimPrecision)
    assert cli.trainer.precision == "bf16-mixed"
    assert cli.config.trainer.plugins.class_path == f"{HERE}.SimPrecision"
    assert cli.config.trainer.plugins.init_args.precision == "bf16-mixed"


def test_several_plugins_are_taken(namespace: Namespace) -> None:
    cli = parse(namespace, f"--trainer.plugins+={HERE}.SimPrecision", f"--trainer.plugins+={HERE}.SimCheckpointIO")

    assert isinstance(cli.trainer.precision_plugin, SimPrecision)
    assert isinstance(cli.trainer.strategy.checkpoint_io, SimCheckpointIO)


def test_a_file_names_a_strategy(namespace: Namespace, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"trainer:\n  strategy:\n    class_path: {HERE}.SimSingleStrategy\n")

    cli = parse(namespace, f"--config={file}")

    assert isinstance(cli.trainer.strategy, SimSingleStrategy)


def test_a_wrong_precision_is_refused(namespace: Namespace, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(namespace, f"--trainer.plugins={HERE}.SimPrecision", "--trainer.plugins.accuracy=bf16-mixed")

    assert "accuracy" in capsys.readouterr().err
