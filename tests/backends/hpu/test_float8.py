"""Training in float8 on the simulated Gaudi: the vendor's Transformer Engine, and torchao."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import nn

import northbridge
import northbridge_hpu
from northbridge_hpu.float8 import TorchAO, TransformerEngine
from northbridge_hpu.trainer import HPUPrecisionPlugin

pytestmark = pytest.mark.usefixtures("hpu")


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(32, 16)


def test_a_layer_computes_in_float8_and_returns_bfloat16(layer: nn.Linear) -> None:
    engine = TransformerEngine()
    converted, rows = engine.convert(layer, None), torch.randn(4, 32)

    with engine.autocast(engine.read_recipe(None)):
        found = converted(rows)

    assert found.dtype == torch.bfloat16
    error = ((found.double() - layer(rows).double()).norm() / layer(rows).double().norm()).item()
    assert 0.01 < error < 0.08


def test_its_checkpoint_is_a_plain_layers(layer: nn.Linear) -> None:
    engine = TransformerEngine()
    net = nn.Sequential(engine.convert(layer, None))
    with engine.autocast(None):
        net(torch.randn(4, 32)).sum().backward()

    saved = net.state_dict()
    nn.Sequential(nn.Linear(32, 16)).load_state_dict(saved)
    net.load_state_dict(saved)

    assert list(saved) == ["0.weight", "0.bias"]
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias"]
    assert list(engine.convert(nn.Linear(32, 16, bias=False), None).state_dict()) == ["weight"]


def test_a_recipe_is_the_vendors_and_another_is_an_error() -> None:
    from habana_frameworks.torch.hpex.experimental.transformer_engine import recipe

    engine = TransformerEngine()
    read = engine.read_recipe({"fp8_format": "E5M2", "amax_history_len": 4})
    wrong: dict[str, Any] = {
        "recipe='tensorwise' is not a recipe of the Transformer Engine. Fix: a recipe.DelayedScaling": "tensorwise",
        "recipe: fp8_format='E4M3' is not one of E5M2, HYBRID": {"fp8_format": "E4M3"},
        "recipe={'history': 1} does not make a DelayedScaling: ": {"history": 1},
    }

    assert read == engine.read_recipe(read) == recipe.DelayedScaling(0, 1, recipe.Format.E5M2, 4)
    assert engine.read_recipe(None) is None
    for said, given in wrong.items():
        with pytest.raises(northbridge.ArgumentsError) as caught:
            engine.read_recipe(given)
        assert str(caught.value).startswith(said)


def test_torchao_is_refused_where_e4m3_ends_at_240() -> None:
    with pytest.raises(northbridge.UnsupportedError) as caught:
        TorchAO().read_recipe("rowwise")

    assert str(caught.value) == (
        "engine='torchao' scales float8_e4m3fn to 448, where the e4m3 of Gaudi2 ends at 240. Fix:"
        " engine='transformer-engine', or a recipe of float8_e5m2 alone"
    )


def test_a_missing_transformer_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "habana_frameworks.torch.hpex.experimental.transformer_engine", None)
    monkeypatch.delattr("habana_frameworks.torch.hpex.experimental.transformer_engine")

    with pytest.raises(northbridge.UnsupportedError) as caught:
        TransformerEngine().read_recipe(None)

    assert str(caught.value).startswith("engine='transformer-engine' needs the vendor's Transformer Engine, which")
    assert str(caught.value).endswith("Fix: the vendor's image, which has intel_transformer_engine")


def test_the_accelerator_says_whether_the_cards_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert northbridge_hpu.HPUAccelerator.is_fp8_available() == (True, "")

    monkeypatch.setattr(northbridge.get("hpu").device, "generation", 1)

    assert northbridge_hpu.HPUAccelerator.is_fp8_available() == (False, "the first generation of Gaudi has none")


def _fit(plugin: Any, net: nn.Module) -> Any:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="hpu", devices=1, plugins=plugin)
    module = fabric.setup_module(net)
    rows = torch.randn(8, 32, device=fabric.device)
    module(rows).float().sum().backward()
    return fabric, module


class Own(HPUPrecisionPlugin):
    """A precision that a user has derived."""


@pytest.mark.parametrize("kind", [northbridge_hpu.HPUPrecisionPlugin, Own])
def test_the_precision_of_lightning_habana_trains(kind: Any) -> None:
    """lightning-Habana's documentation and tests train a layer of 32 x 2."""
    plugin, net = kind("fp8", recipe={"fp8_format": "E5M2"}), nn.Sequential(nn.Linear(32, 2), nn.ReLU())

    assert plugin.convert_modules(net) is net
    fabric, module = _fit(plugin, net)

    assert isinstance(fabric._precision, northbridge.Float8Precision)
    assert isinstance(fabric._precision, kind)
    assert fabric._precision.recipe == {"fp8_format": "E5M2"}  # convert_modules() keeps the plugin's own
    assert plugin.precision == fabric._precision.precision == "fp8"
    assert TransformerEngine().is_converted(module.module[0])
    assert (module.module[0].weight.grad.dtype, module.module[0].weight.grad.shape) == (torch.float32, (2, 32))


def test_a_precision_says_what_is_available() -> None:
    for plugin, trains in ((HPUPrecisionPlugin("fp8"), True), (HPUPrecisionPlugin("bf16-mixed"), False)):
        assert (plugin.fp8_train_available, plugin.fp8_training_available) == (trains, trains)
        assert plugin.fp8_inference_available == (trains and find_spec("neural_compressor") is not None)


def test_the_engine_says_whether_it_computes_in_float8() -> None:
    """lightning-Habana's tests ask it in a forward pass."""
    import habana_frameworks.torch.hpex.experimental.transformer_engine as engine

    with engine.fp8_autocast(enabled=True):
        inside = engine.fp8.is_fp8_enabled(), engine.fp8.FP8GlobalStateManager.is_fp8_enabled()

    assert inside == (True, True)
    assert not engine.fp8.is_fp8_enabled()
    assert not engine.fp8.FP8GlobalStateManager.is_fp8_enabled()


def test_layers_are_left_to_the_user_if_asked(layer: nn.Linear) -> None:
    import habana_frameworks.torch.hpex.experimental.transformer_engine as engine

    plugin = northbridge_hpu.HPUPrecisionPlugin("fp8", replace_layers=False)

    _, module = _fit(plugin, nn.Sequential(engine.Linear(32, 16), nn.Linear(16, 16)))

    assert [type(each).__module__.partition(".")[0] for each in module.module.children()] == [
        "northbridge_hpu",
        "torch",
    ]


def test_another_precision_has_no_recipe() -> None:
    arguments: list[dict[str, Any]] = [{"recipe": {}}, {"replace_layers": True}]
    for argument in arguments:
        with pytest.raises(northbridge.ArgumentsError) as caught:
            northbridge_hpu.HPUPrecisionPlugin("bf16-mixed", **argument)

        assert str(caught.value) == (
            "HPUPrecisionPlugin: recipe= and replace_layers= are for 'fp8', not for 'bf16-mixed'. Fix: leave them out"
        )
