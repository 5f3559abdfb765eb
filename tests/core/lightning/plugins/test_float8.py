"""The float8 precision: its layers, its refusals, and where users write it."""

from __future__ import annotations

import copy
import json
import os
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from tests.core.lightning.conftest import Build, Claims, refusal
from tests.core.lightning.plugins.test_precision import precision_of
from tests.engines import needs_engines, with_engines
from tests.scripts import run_forked
from torch import nn

import northbridge
from northbridge.capabilities import no
from northbridge.discovery import declared
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.plugins.float8 import convert_linears, use_requested

pytestmark = pytest.mark.usefixtures("chip")


class Rounded(nn.Linear):
    """A layer of the engine below."""


class Rounding(northbridge.Float8Engine):
    """An engine without a library: it rounds the output to three bits of mantissa."""

    multiple = 16

    def read_recipe(self, recipe: Any) -> Any:
        if recipe not in (None, "coarse"):
            raise northbridge.ArgumentsError(f"recipe={recipe!r} is not 'coarse'")
        return recipe or "fine"

    def convert(self, linear: nn.Linear, recipe: Any) -> nn.Module:
        made = Rounded(linear.in_features, linear.out_features, bias=False, device="meta")
        made.weight, made.bias = linear.weight, linear.bias
        return made

    def is_converted(self, module: nn.Module) -> bool:
        return isinstance(module, Rounded)


class Emulating(Rounding):
    emulates = True


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch, chip: None) -> dict[str, northbridge.Float8Engine]:
    """The engines of the chip."""
    offered: dict[str, northbridge.Float8Engine] = {"rounding": Rounding(), "emulating": Emulating()}
    monkeypatch.setattr(type(declared.load("cpu_sim").acceleration), "float8_engines", lambda _: offered)
    return offered


class Own(nn.Linear):
    """A user's layer."""


def model() -> nn.Module:
    net = nn.Sequential(nn.Linear(32, 48), nn.Sequential(nn.Linear(48, 16), nn.ReLU()), Own(16, 16))
    net.add_module("head", nn.Linear(16, 10))
    return net


def chosen(net: nn.Module) -> list[str]:
    """Return the names of the layers in float8."""
    return [name for name, each in net.named_modules() if isinstance(each, Rounded)]


def test_lightnings_word_asks_for_it(namespace: Namespace, build: Build) -> None:
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, precision="transformer-engine"))

    assert type(plugin) is classes(namespace).float8_precision
    assert isinstance(plugin, northbridge.Float8Precision)
    assert isinstance(plugin, namespace.module("plugins").Precision)


@pytest.mark.parametrize("inside", [False, True], ids=["a plugin", "of a strategy"])
def test_the_public_name_serves_each_namespace(namespace: Namespace, build: Build, inside: bool) -> None:
    mine = northbridge.Float8Precision(engine="emulating", recipe="coarse", skip=["head"])
    asked: dict[str, Any] = {"plugins": [mine]}
    if inside:
        argument = "precision_plugin" if namespace.is_trainer else "precision"
        asked = {"strategy": namespace.module("strategies").DDPStrategy(**{argument: mine})}

    plugin = precision_of(build(accelerator="cpu_sim", devices=1, **asked))

    assert plugin is mine
    assert type(plugin) is classes(namespace).float8_precision
    assert (plugin.engine, plugin.recipe, plugin.skip) == ("emulating", "coarse", ("head",))


def test_one_of_another_namespace_is_converted(namespace: Namespace, build: Build) -> None:
    for other in NAMESPACES.values():
        theirs = classes(other).float8_precision(skip=["head"])

        plugin = precision_of(build(accelerator="cpu_sim", devices=1, plugins=theirs))

        assert type(plugin) is classes(namespace).float8_precision
        assert plugin.skip == ("head",)


def test_it_survives_pickling(build: Build) -> None:
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, precision="transformer-engine"))

    again = pickle.loads(pickle.dumps(plugin))

    assert chosen(again.convert_module(model())) == ["0", "1.0"]


def test_the_log_names_layers_that_stay(build: Build, logged: list[str]) -> None:
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, plugins=northbridge.Float8Precision(skip=["1"])))

    net = model()
    net.add_module("normed", torch.nn.utils.spectral_norm(nn.Linear(16, 16)))  # float8 would lose the norm

    plugin.convert_module(plugin.convert_module(net))

    assert len([line for line in logged if line.startswith("Training")]) == 1  # where a user converts first
    assert logged[-1] == (
        "Training 1 linear layer in float8 with rounding; not in float8: 1.0 (skip=), 2 (a Own, not torch.nn.Linear),"
        " head (16 x 10, not multiples of 16), normed (its weight is computed from others)"
    )


def test_emulation_is_said(build: Build) -> None:
    mine = northbridge.Float8Precision("emulating")
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, plugins=mine))

    with pytest.warns(UserWarning, match=r"^emulating emulates float8 on 'cpu_sim': it rounds to float8, but"):
        plugin.convert_module(model())


@pytest.mark.parametrize(
    ("skip", "left"),
    [
        ((), ["0", "1.0"]),
        (["1"], ["0"]),
        (["1.*"], ["0"]),
        (lambda name, layer: layer.out_features == 48, ["1.0"]),
    ],
)
def test_layers_are_left_out_by_name_pattern_or_function(skip: Any, left: list[str]) -> None:
    converted, _ = convert_linears(model(), Rounding(), None, skip)

    assert chosen(converted) == left
    said = refusal(northbridge.ArgumentsError, convert_linears, model(), Rounding(), None, ["haed"])
    assert said == "Float8Precision(skip=…): the model has no module 'haed'. Did you mean 'head'?"
    said = refusal(northbridge.ArgumentsError, northbridge.Float8Precision, skip="head")
    assert "skip='head') is neither a list of names " in said
    assert "skip=['head']" in said


def test_a_model_without_a_fitting_layer_is_an_error(build: Build) -> None:
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, precision="transformer-engine"))

    said = refusal(northbridge.UnsupportedError, plugin.convert_module, nn.Sequential(nn.Linear(5, 16)))

    assert said == (
        "no layer of Sequential can be trained in float8: it has 0 (5 x 16, not multiples of 16). Fix: multiples of 16"
        " for the features of its layers, or precision='bf16-mixed'"
    )


def test_an_engine_may_have_layers_of_any_size(engines: dict[str, northbridge.Float8Engine]) -> None:
    engines["rounding"].multiple = 1

    converted, kept = convert_linears(model(), engines["rounding"], None, ())

    assert chosen(converted) == ["0", "1.0", "head"]
    assert list(kept) == ["2"]


def asked_for(namespace: Namespace, plugin: Any, *, part: bool = False, **arguments: Any) -> Any:
    """Return a Trainer's strategy, made before ``plugin`` was asked for its module, as its run begins."""
    lightning: Any = import_module(namespace.name)
    module = lightning.LightningModule()
    module.net = model()
    strategy = lightning.Trainer(accelerator="cpu_sim", devices=1, logger=False, **arguments).strategy
    plugin.use_for(module.net if part else module)
    strategy.connect(copy.deepcopy(module))
    use_requested(strategy)
    return strategy


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_a_module_brings_its_precision_to_a_run(name: str) -> None:
    namespace = NAMESPACES[name]
    others: list[dict[str, Any]] = [
        {},
        {"precision": "bf16-mixed"},
        {"plugins": northbridge.Float8Precision("emulating")},
    ]
    for arguments in others:
        strategy = asked_for(namespace, northbridge.Float8Precision(skip=["net.0"]), **arguments)
        plugin = strategy.precision_plugin

        assert type(plugin) is classes(namespace).float8_precision
        assert chosen(plugin.convert_module(strategy.lightning_module)) == ["net.1.0"]

        strategy.connect(import_module(name).LightningModule())
        use_requested(strategy)
        assert strategy.precision_plugin is not plugin  # a Trainer's next module has the precision of the Trainer

    mine = northbridge.Float8Precision(skip=("net.1",))
    assert asked_for(namespace, northbridge.Float8Precision(skip=["net.1"]), plugins=mine).precision_plugin is mine


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"precision": "64-true"},
            (
                "LightningModule is to run in float8, and its Trainer has DoublePrecision. Fix: leave precision=,"
                " plugins= and strategy= out"
            ),
        ),
        ({"part": True}, "'net' is to run in float8, and is a part of LightningModule. Fix: convert the whole module"),
    ],
)
def test_requested_float8_is_alone_and_of_a_whole_module(asked: dict[str, Any], said: str) -> None:
    plugin = northbridge.Float8Precision()

    assert refusal(northbridge.ArgumentsError, asked_for, NAMESPACES["lightning.pytorch"], plugin, **asked) == said


@pytest.mark.parametrize("own", [None, northbridge.Float8Precision("emulating")])
def test_fabric_without_requested_float8_fails(own: Any) -> None:
    net = model()
    asked: Any = northbridge.Float8Precision()
    asked.use_for(net)

    said = refusal(northbridge.ArgumentsError, Fabric(accelerator="cpu_sim", devices=1, plugins=own).setup_module, net)

    assert said == (
        "Sequential is to run in float8, and this run does not have its plugin. Fix: give it to the Fabric or Trainer:"
        " plugins=[…]"
    )
    assert chosen(Fabric(accelerator="cpu_sim", devices=1, plugins=asked).setup_module(net)) != []


class Sharded(torch.Tensor):
    """A parameter that looks like a DTensor."""

    device_mesh = "a mesh"


def test_a_sharded_layer_is_an_error_unless_it_stays() -> None:
    net = model()
    for each in net.modules():
        if isinstance(each, nn.Linear):
            each.weight = nn.Parameter(each.weight.detach().as_subclass(Sharded))

    said = refusal(northbridge.UnsupportedError, convert_linears, net, Rounding(), None, ())

    assert said == (
        "the layer '0' is sharded already, so it cannot be trained in float8. Fix: in configure_model(), before"
        " sharding: self.trainer.precision_plugin.convert_module(self)"
    )
    assert list(convert_linears(net, Rounding(), None, ["0", "1"])[1]) == ["0", "1.0", "2", "head"]


def test_a_model_that_is_one_layer_becomes_another_and_only_once() -> None:
    converted, _ = convert_linears(nn.Linear(16, 16), Rounding(), None, ())
    again, kept = convert_linears(converted, Rounding(), None, ())

    assert isinstance(converted, Rounded)
    assert again is converted
    assert kept == {}


def test_a_shared_layer_stays_shared_with_its_hooks() -> None:
    shared, seen = nn.Linear(16, 16), []
    shared.register_forward_hook(lambda *given: seen.append(given))
    net = nn.Sequential(shared, nn.ReLU(), shared).eval()

    convert_linears(net, Rounding(), None, ())
    net(torch.zeros(2, 16))

    assert net[0] is net[2]
    assert isinstance(net[0], Rounded)
    assert not net[0].training
    assert len(seen) == 2


def test_the_forward_pass_is_under_autocast(build: Build) -> None:
    plugin = precision_of(build(accelerator="cpu_sim", devices=1, precision="transformer-engine"))

    with plugin.forward_context():
        assert torch.get_autocast_dtype("cpu_sim") == torch.bfloat16
        assert torch.is_autocast_enabled("cpu_sim")


DENIED = ": 'cpu_sim' has no float8: its matrix unit has none. Fix: precision='bf16-mixed'"
WORD = {"precision": "transformer-engine"}
UNKNOWN = "is unknown to Lightning. Fix: precision='transformer-engine', its word for float8"
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (WORD, "denied", f"precision='transformer-engine'{DENIED}"),
    ({"precision": "fp8"}, "denied", f"precision='fp8'{DENIED}"),
    ({"precision": "fp8"}, "", f"precision='fp8' {UNKNOWN}"),
    ({"precision": "Float8-mixed"}, "", f"precision='Float8-mixed' {UNKNOWN}"),
    ({"plugins": northbridge.Float8Precision()}, "denied", f"Float8Precision(){DENIED}"),
    (
        WORD,
        "no engine",
        "float8 training does not run on 'cpu_sim': it offers no engine. Fix: precision='bf16-mixed'",
    ),
    (
        {"plugins": northbridge.Float8Precision("nvidia")},
        "",
        (
            "float8 training with engine='nvidia' does not run on 'cpu_sim': it offers 'rounding', 'emulating'."
            " Fix: engine='rounding'"
        ),
    ),
    ({"plugins": northbridge.Float8Precision(recipe="fast")}, "", "recipe='fast' is not 'coarse'"),
    (
        {"precision": "transformer-engine-float16"},
        "",
        (
            "precision='transformer-engine-float16' runs on CUDA only: float8 layers return bfloat16 on 'cpu_sim'. Fix:"
            " precision='transformer-engine'"
        ),
    ),
]


@pytest.mark.parametrize(("asked", "how", "said"), REFUSED)
def test_what_the_chip_lacks_is_refused_before_training(
    build: Build, claims: Claims, engines: dict[str, Any], asked: dict[str, Any], how: str, said: str
) -> None:
    if how == "denied":
        claims(float8=no("its matrix unit has none"))
    elif how:
        engines.clear()
    kind: type[northbridge.NorthbridgeError] = northbridge.UnsupportedError
    if said.startswith("recipe"):
        kind = northbridge.ArgumentsError
    elif said.endswith(UNKNOWN):
        kind = northbridge.ArgumentValueError
    capability = "float8" if how == "denied" else None

    assert refusal(kind, build, accelerator="cpu_sim", devices=1, capability=capability, **asked) == said


def test_a_run_on_the_cpu_is_told_where_it_runs(namespace: Namespace, build: Build) -> None:
    plugin = precision_of(build(accelerator="cpu", devices=1, plugins=northbridge.Float8Precision()))

    with pytest.raises(northbridge.UnsupportedError, match=r"^Float8Precision has no chip: it runs on Northbridge's"):
        plugin.convert_module(model())


TRAINED = """
import json, os, sys, warnings
import lightning.pytorch as pl
import torch
from lightning.fabric import Fabric
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard
from torchao.float8 import convert_to_float8_training
import northbridge

ROWS = torch.randn(32, 32, generator=torch.Generator().manual_seed(3))

class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.net = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.ReLU(), torch.nn.Linear(48, 16))
    def training_step(self, batch, index):
        loss = (self.net(batch).float() - 1).square().mean()
        self.log("loss", loss, sync_dist=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.01)

class Sharded(Module):
    def configure_model(self):
        self.trainer.precision_plugin.convert_module(self)
        for part in (self.net[0], self.net):
            fully_shard(part, mesh=self.device_mesh["data_parallel"])

warnings.simplefilter("ignore")
found = {}
if "LOCAL_RANK" not in os.environ:
    rowwise = northbridge.TorchAO().read_recipe("rowwise")
    found["rowwise"] = rowwise.round_scales_to_power_of_2
    found["emulated"] = northbridge.TorchAO(emulates=True).read_recipe(rowwise).emulate
    try:
        northbridge.TorchAO().read_recipe("columnwise")
    except northbridge.ArgumentsError as error:
        found["unknown"] = str(error)
    fabric = Fabric(accelerator="cpu_sim", devices=1, plugins=northbridge.Float8Precision())
    net, wanted = fabric.setup_module(Module().net), convert_to_float8_training(Module().net)
    for rows, model in ((ROWS.to(fabric.device), net), (ROWS.bfloat16(), wanted)):
        with torch.autocast("cpu", torch.bfloat16):
            model(rows).float().square().mean().backward()
    pairs = zip(net.parameters(), wanted.parameters(), strict=True)
    found["as on the CPU"] = all(torch.equal(mine.grad.cpu(), right.grad) for mine, right in pairs)
    with torch.inference_mode():
        found["evaluated"] = str(net(ROWS.to(fabric.device)).dtype)
def fit(module, **options):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    kept = dict(accelerator="cpu_sim", devices=2, precision="transformer-engine", max_epochs=4)
    trainer = pl.Trainer(**kept, **quiet, **options)
    trainer.fit(module, torch.utils.data.DataLoader(ROWS, 8))
    return trainer

module = Module()
begin = (module.net(ROWS).float() - 1).square().mean().item()
trainer = fit(module)
sums = torch.stack([each.detach().double().sum() for each in module.parameters()]).cpu()
both = trainer.strategy.all_gather(sums.to(trainer.strategy.root_device)).cpu()
spread = fit(Sharded(), strategy=ModelParallelStrategy(2, 1), enable_checkpointing=False)
if trainer.global_rank == 0:
    found["sharded as whole"] = spread.callback_metrics["loss"].item() == trainer.callback_metrics["loss"].item()
    found["ranks agree"] = torch.equal(both[0], both[1])
    found["loss"] = [begin, trainer.callback_metrics["loss"].item()]
    found["layers"] = [type(each).__name__ for each in module.net]
    print(json.dumps(found))
"""


@needs_engines
def test_torchao_trains_as_on_the_cpu_and_on_two_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINED)

    # The variables of test_deepspeed.py, so that one process forks for both.
    environ = with_engines({**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])})
    ran = run_forked(script, folder=tmp_path, environ=environ)

    assert ran.status == 0, ran.said
    found = json.loads(next(line for line in ran.said.splitlines() if line.startswith("{")))
    assert found["as on the CPU"]
    assert found["ranks agree"]
    assert found["sharded as whole"]
    assert (found["rowwise"], found["emulated"], found["evaluated"]) == (True, True, "torch.bfloat16")
    assert found["unknown"] == (
        "recipe='columnwise' is not a recipe of torchao. Fix: one of tensorwise, rowwise, rowwise_with_gw_hp, or a"
        " torchao.float8.Float8LinearConfig"
    )
    assert found["loss"][1] < found["loss"][0] / 2
    assert found["layers"] == ["_AutocastLinear", "ReLU", "_AutocastLinear"]
    assert "Training 2 linear layers in float8 with torchao" in ran.said
    _reopen_without_float8(next(tmp_path.rglob("*.ckpt")))


def _reopen_without_float8(checkpoint: Path) -> None:
    kept = torch.load(checkpoint, weights_only=True)
    net = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    optimizer = torch.optim.AdamW(net.parameters())

    net.load_state_dict({key.removeprefix("net."): value for key, value in kept["state_dict"].items()})
    optimizer.load_state_dict(kept["optimizer_states"][0])

    moments = [optimizer.state[each]["exp_avg"].shape for each in net.parameters()]
    assert moments == [each.shape for each in net.parameters()]
