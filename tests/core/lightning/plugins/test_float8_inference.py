"""The precision of float8 inference: its arguments, and the quantizer that a backend announces."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, refusal
from tests.core.lightning.plugins.test_precision import precision_of
from torch import nn

import northbridge
from northbridge.capabilities import no
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins import float8_inference
from northbridge.lightning.plugins.float8_inference import find_quantizer

pytestmark = pytest.mark.usefixtures("chip")


class HalfQuantizer(northbridge.Float8Quantizer):
    """A vendor's quantizer, whose numbers are those of float16."""

    @classmethod
    def library(cls, asked: str) -> str:  # noqa: ARG003 - the interface's
        return "halves 1.0"

    def open(self) -> None:
        self.settings: Mapping[str, Any] = {}

    def settle(self, config: Mapping[str, Any], prefix: Path) -> dict[str, Any]:
        return {**config, "prefix": str(prefix)}

    def layers(self, module: nn.Module) -> list[str]:
        return [name for name, each in module.named_modules() if isinstance(each, nn.Linear)]

    def is_converted(self, module: nn.Module) -> bool:
        return hasattr(module, "halved")

    def measure(self, module: nn.Module, settings: Mapping[str, Any], device: torch.device) -> None:
        self.settings = settings
        for name in self.layers(module):
            vars(module.get_submodule(name))["halved"] = False

    def finish(self, module: nn.Module) -> bool:
        (file,) = self.files(self.settings)
        file.write_text("")
        return True

    def restore(self, module: nn.Module) -> None:
        for name in self.layers(module):
            del module.get_submodule(name).halved

    def files(self, settings: Mapping[str, Any]) -> tuple[Path, ...]:
        return (Path(f"{settings['prefix']}_halves"),)

    def quantize(self, module: nn.Module, settings: Mapping[str, Any]) -> None:
        for name in self.layers(module):
            layer: Any = module.get_submodule(name)
            layer.halved = True
            layer.weight.data = layer.weight.data.half().float()

    def save(self, module: nn.Module, layers: Sequence[str], folder: Path) -> str:
        folder.mkdir()
        torch.save(module.state_dict(), folder / "halves")
        return ""

    def load(self, module: nn.Module, folder: Path, check: Callable[[str, Path, Sequence[Path]], None]) -> str:
        check("", folder, [folder / "halves"])
        self.quantize(module, {})
        module.load_state_dict(torch.load(folder / "halves", map_location=self.chip, weights_only=True))
        return "FP32"


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
    announced(cpu_sim=f"{__name__}:HalfQuantizer")


@pytest.mark.parametrize(("backend", "module"), [("flint", "json.decoder"), ("quartz", "json"), ("cpu", "json")])
def test_a_chip_has_its_own_quantizer_or_the_first(announced: Callable[..., None], backend: str, module: str) -> None:
    announced(flint="json.decoder:JSONDecoder", acme="json:JSONEncoder")

    assert find_quantizer(backend, "x").__module__ == {"json": "json.encoder"}.get(module, module)


def test_without_a_quantizer_the_page_with_the_line_is_named(announced: Callable[..., None], build: Build) -> None:
    announced()

    said = refusal(
        northbridge.UnsupportedError,
        build,
        accelerator="cpu_sim",
        devices=1,
        plugins=northbridge.Float8Inference("measure", "measured"),
    )

    assert said == (
        "Float8Inference() needs a quantizer, and no installed backend has one. Fix: docs/float8.md#inference has the"
        " line"
    )


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


def test_a_chip_that_denies_float8_refuses(build: Build, claims: Claims) -> None:
    claims(float8=no("its matrix unit has none"))

    said = refusal(
        northbridge.UnsupportedError,
        build,
        accelerator="cpu_sim",
        devices=1,
        plugins=northbridge.Float8Inference("measure", "measured"),
    )

    assert said == "Float8Inference(): 'cpu_sim' has no float8: its matrix unit has none. Fix: precision='bf16-mixed'"


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


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's, of torch
@pytest.mark.usefixtures("installed")
def test_a_vendors_own_quantizer_is_used(trainer_namespace: Namespace, tmp_path: Path, logged: list[str]) -> None:
    boring = trainer_namespace.module("demos.boring_classes")
    host: Any = importlib.import_module(trainer_namespace.name).Trainer
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    found = []

    def predict(precision: northbridge.Float8Inference, model: Any) -> Any:
        host(accelerator="cpu_sim", devices=1, plugins=precision, **quiet).predict(
            model, torch.utils.data.DataLoader(boring.RandomDataset(32, 2))
        )
        found.append((hasattr(model.layer, "halved"), torch.equal(model.layer.weight, model.layer.weight.half())))
        return model

    model = predict(northbridge.Float8Inference("measure", tmp_path), boring.BoringModel())
    quantized = northbridge.Float8Inference("quantize", tmp_path)
    predict(quantized, model)
    quantized.save(tmp_path / "saved")
    loaded = predict(northbridge.Float8Inference("load", tmp_path / "saved"), boring.BoringModel())

    assert found == [(False, False), (True, True), (True, True)]
    assert torch.equal(loaded.layer.weight, model.layer.weight)
    assert "halves 1.0" in (tmp_path / "northbridge_measure_0_1.json").read_text()
    assert f"Saved 1 layer in float8 to {tmp_path / 'saved'}" in logged
