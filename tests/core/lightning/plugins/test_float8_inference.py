"""The precision of float8 inference: its arguments, and the quantizer that a backend announces."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, refusal
from tests.core.lightning.plugins.test_precision import precision_of

import northbridge
from northbridge.capabilities import no
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins import float8_inference
from northbridge.lightning.plugins.float8_inference import find_quantizer

pytestmark = pytest.mark.usefixtures("chip")


class OwnQuantizer(northbridge.Float8Quantizer):
    """A vendor's quantizer; tests/backends/hpu/test_neural_compressor.py measures and quantizes with one."""

    @classmethod
    def library(cls, asked: str) -> str:  # noqa: ARG003 - the interface's
        return "own 1.0"


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let backends announce quantizers: ``acme="module:name"``."""

    def announce(**entries: str) -> None:
        found = EntryPoints(EntryPoint(name, value, float8_inference.QUANTIZERS) for name, value in entries.items())
        monkeypatch.setattr(float8_inference, "read_entry_points", lambda: found)

    return announce


@pytest.fixture
def installed(announced: Callable[..., None]) -> None:
    """The simulated chip has a quantizer of its own."""
    announced(cpu_sim=f"{__name__}:OwnQuantizer")


@pytest.mark.parametrize(("backend", "module"), [("flint", "json.decoder"), ("quartz", "json"), ("cpu", "json")])
def test_a_chip_has_its_own_quantizer_or_the_first(announced: Callable[..., None], backend: str, module: str) -> None:
    announced(flint="json.decoder:JSONDecoder", acme="json:JSONEncoder")

    assert find_quantizer(backend, "x").__module__ == {"json": "json.encoder"}.get(module, module)


@pytest.mark.parametrize(
    ("denied", "said"),
    [
        (
            False,
            (
                "Float8Inference() needs a quantizer, and no installed backend has one. Fix: install a backend"
                " that announces one in the entry-point group 'northbridge.float8_inference'"
            ),
        ),
        (
            True,
            "Float8Inference(): 'cpu_sim' has no float8: its matrix unit has none. Fix: precision='bf16-mixed'",
        ),
    ],
)
def test_without_a_quantizer_or_float8_it_is_refused(
    announced: Callable[..., None], build: Build, claims: Claims, denied: bool, said: str
) -> None:
    announced()
    if denied:
        claims(float8=no("its matrix unit has none"))
    mine = northbridge.Float8Inference("measure", "measured")
    asked: dict[str, Any] = {"accelerator": "cpu_sim", "devices": 1, "plugins": mine}

    assert refusal(northbridge.UnsupportedError, build, **asked) == said


def test_a_broken_quantizer_is_named(announced: Callable[..., None]) -> None:
    announced(acme="json:Quantizer")

    said = refusal(northbridge.InstallationError, find_quantizer, "acme", "Float8Inference()")

    assert said == (
        "json:Quantizer: AttributeError: module 'json' has no attribute 'Quantizer'. Fix: reinstall its distribution"
    )


@pytest.mark.usefixtures("installed")
def test_the_public_name_serves_each_namespace(namespace: Namespace, build: Build) -> None:
    mine = northbridge.Float8Inference("measure", "measured")

    plugin = precision_of(build(accelerator="cpu_sim", devices=1, plugins=[mine]))

    assert plugin is mine
    assert type(plugin) is classes(namespace).float8_inference
    assert isinstance(plugin, namespace.module("plugins").Precision)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "Float8Inference(): stage=, or the mode of config=, is one of 'measure', 'quantize', 'load'"),
        ({"stage": "calibrate", "folder": "m"}, "Float8Inference('calibrate'): stage=, or the mode of config="),
        ({"stage": "measure"}, "Float8Inference('measure') has no folder. Fix: folder='measurements'"),
        (
            {"config": {"mode": "LOAD", "dump_stats_path": "m/measure"}},
            "Float8Inference('load') has no folder. Fix: folder='quantized'",
        ),
        (
            {"stage": "load", "folder": "m", "config": {"use_qdq": True}},
            "Float8Inference('load', config=…) has use_qdq, and the saved model has its own configuration. Fix: leave",
        ),
        (
            {"stage": "measure", "folder": "m", "config": {"mode": "QUANTIZE"}},
            "Float8Inference('measure') contradicts the mode 'QUANTIZE' in config=. Fix: leave one out",
        ),
        (
            {"stage": "measure", "folder": "m", "config": {"hp_dtype": "FP8"}},
            "Float8Inference: hp_dtype='FP8' is not one of BF16, FP16, FP32",
        ),
        (
            {"stage": "measure", "folder": "m", "config": 1},
            "Float8Inference(config=…) is int, not a configuration. Fix: a dict, the path of a JSON file with one, or",
        ),
        ({"stage": "measure", "folder": "m", "config": "nowhere.json"}, "Float8Inference(config='nowhere.json') can"),
    ],
)
def test_an_invalid_argument_is_an_error(arguments: dict[str, Any], said: str) -> None:
    assert refusal(northbridge.ArgumentsError, northbridge.Float8Inference, **arguments).startswith(said)


def test_saving_before_a_run_has_quantized_is_an_error() -> None:
    for stage in ("measure", "quantize", "load"):
        said = refusal(northbridge.ArgumentsError, northbridge.Float8Inference(stage, "m").save, "quantized")

        assert said == f"Float8Inference({stage!r}).save(): no run has quantized a model with it"


def test_the_configuration_may_say_everything(tmp_path: Path) -> None:
    written = tmp_path / "config.json"
    written.write_text(json.dumps({"mode": "MEASURE", "dump_stats_path": "calibrated/net", "observer": "maxabs"}))

    plugin = northbridge.Float8Inference(config=written)

    assert (plugin.stage, plugin.folder) == ("measure", Path("calibrated"))
    assert plugin.config == {"observer": "maxabs"}


@pytest.mark.usefixtures("installed")
def test_a_model_without_a_trainer_is_converted(trainer_namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy may be called by hand, with a model that is attached to no Trainer."""
    module = trainer_namespace.module("demos.boring_classes").BoringModel()
    host: Any = importlib.import_module(trainer_namespace.name).Trainer
    plugins = northbridge.Float8Inference("measure", "m")
    strategy = host(accelerator="cpu_sim", devices=1, plugins=plugins, logger=False).strategy
    converted: list[tuple[object, torch.device]] = []
    monkeypatch.setattr(plugins, "_convert", lambda *found: converted.append(found))
    strategy.connect(module)

    strategy.setup_environment()
    strategy.setup_precision_plugin()

    assert plugins.convert_module(module) is module
    assert converted == [(module, torch.device("cpu_sim", 0))]


@pytest.mark.usefixtures("installed")
def test_other_layers_run_in_the_dtype_of_the_configuration(build: Build) -> None:
    mine, plain = (northbridge.Float8Inference("measure", "m", {"hp_dtype": each}) for each in ("bf16", "fp32"))
    plugins = [precision_of(build(accelerator="cpu_sim", devices=1, plugins=each)) for each in (mine, plain)]

    found = []
    for each in plugins:
        with each.forward_context():
            found.append(torch.is_autocast_enabled("cpu_sim"))

    assert found == [True, False]
