"""DeepSpeed's strategy on one device: what works, and what is refused. This file is also the script that trains."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric, plugins as fabric_plugins
from lightning.fabric.strategies import deepspeed as of_fabric
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.strategies import DeepSpeedStrategy
from tests.engines import READY, needs_engines, with_engines
from tests.scripts import run_forked
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import northbridge
from northbridge.lightning.strategies.deepspeed_accelerator import check_builders

pytestmark = pytest.mark.timeout(240)

RATE = 0.1
QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
LOST = ("groups", "rate", "schedule")
INFERENCE = ("dtype", "mp_size", "replace_with_kernel_inject", "tp")
SHARDED = (1, 2, 3)

CASES: dict[str, Callable[[], Any]] = {}


def case(run: Callable[[], Any]) -> Callable[[], Any]:
    CASES[run.__name__] = run
    return run


def layers() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def rows(size: int = 4) -> DataLoader[tuple[Tensor, ...]]:
    numbers = torch.Generator().manual_seed(1)
    inputs, labels = torch.randn(16, 8, generator=numbers), torch.randint(0, 3, (16,), generator=numbers)
    return DataLoader(TensorDataset(3 * inputs, labels), batch_size=size)


def by_torch(size: int = 4, epochs: int = 1, kind: Any = torch.optim.SGD) -> tuple[nn.Module, list[float]]:
    """Return the model that plain torch trains on the CPU, and its losses."""
    model, losses = layers(), []
    optimizer = kind(model.parameters(), lr=RATE)
    for _ in range(epochs):
        for inputs, labels in rows(size):
            loss = cross_entropy(model(inputs), labels)
            losses.append(loss.item())
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
    return model, losses


def evaluated(model: nn.Module) -> list[float]:
    """Return the losses of ``model`` on the CPU."""
    with torch.no_grad():
        return [cross_entropy(model(inputs), labels).item() for inputs, labels in rows()]


class _Steps(nn.Module):
    optimizers: Any  # of either package's LightningModule
    manual_backward: Any

    def __init__(self, optimizers: int = 1, *, checkpoints: bool = False, every: int = 0) -> None:
        super().__init__()
        self.layers, self.optimizers_made, self.checkpoints, self.every = layers(), optimizers, checkpoints, every
        self.automatic_optimization = not every
        self.losses: list[float] = []
        self.devices: list[str] = []

    def training_step(self, batch: list[Tensor], index: int) -> Tensor | None:
        inputs, labels = batch
        if self.checkpoints:
            from deepspeed import checkpointing  # pyright: ignore[reportMissingImports]  # in .engines

            found = checkpointing.checkpoint(self.layers[1:], self.layers[0](inputs))
        else:
            found = self.layers(inputs)
        loss = cross_entropy(found.float(), labels)
        self.losses.append(loss.item())
        self.devices = [str(inputs.device), str(loss.device)]
        if not self.every:
            return loss
        optimizer: Any = self.optimizers()
        self.manual_backward(loss / self.every)
        if index % self.every == self.every - 1:
            optimizer.step()
            optimizer.zero_grad()
        return None

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        self.losses.append(cross_entropy(self.layers(batch[0]).float(), batch[1]).item())

    def predict_step(self, batch: list[Tensor], _: int) -> Tensor:
        found: Tensor = self.layers(batch[0])
        return found.sum().cpu()

    def configure_optimizers(self) -> Any:
        made = [torch.optim.SGD(self.parameters(), lr=RATE) for _ in range(self.optimizers_made)]
        return made[0] if len(made) == 1 else made or None


class Model(_Steps, LightningModule):
    pass


class VendorsDeepSpeed(northbridge.DeepSpeedStrategyName, backend="cpu_sim"):
    pass


class ByAdagrad(Model):
    """Trained by torch's Adagrad: in two groups, with a rate that its group has, or with a schedule."""

    def __init__(self, what: str = "") -> None:
        super().__init__()
        self.what = what

    def configure_optimizers(self) -> Any:
        groups: list[dict[str, Any]] = [
            {"params": self.parameters(), **({"lr": RATE / 2} if self.what == "rate" else {})}
        ]
        if self.what == "groups":
            groups = [{"params": self.layers[0].parameters()}, {"params": self.layers[2].parameters()}]
        optimizer = torch.optim.Adagrad(groups, lr=RATE)
        if self.what != "schedule":
            return optimizer
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def trainer(strategy: Any = "deepspeed_stage_2", **options: Any) -> Any:
    chosen: dict[str, Any] = {"accelerator": "cpu_sim", "devices": 1, "max_epochs": 1, **QUIET, **options}
    return Trainer(strategy=strategy, use_distributed_sampler=False, **chosen)  # rows in their order


def fit(strategy: Any = "deepspeed_stage_2", model: Model | None = None, size: int = 4, **options: Any) -> Any:
    host, module = trainer(strategy, **options), model or Model()
    host.fit(module, rows(size))
    return host, module


def configured(**config: Any) -> Any:
    return DeepSpeedStrategy(config={"zero_optimization": {"stage": 2}, **config})


def fabric(strategy: Any, **options: Any) -> Fabric:
    host = Fabric(accelerator="cpu_sim", devices=1, strategy=strategy, **options)
    host.launch()
    return host


def refusal(act: Callable[[], Any]) -> str:
    try:
        act()
    except Exception as error:  # noqa: BLE001 - the caller compares its type
        return f"{type(error).__name__}: {error}"
    return "no error"


def step(host: Fabric, model: Any, optimizer: Any, size: int = 4, every: int = 1) -> list[float]:
    losses = []
    for index, (inputs, labels) in enumerate(host.setup_dataloaders(rows(size))):
        loss = cross_entropy(model(inputs), labels)
        losses.append(loss.item())
        host.backward(loss / every, model=model)
        if index % every == every - 1:
            optimizer.step()
            optimizer.zero_grad()
    return losses


def prepared(host: Fabric, optimizers: int = 1) -> Any:
    model = layers()
    return host.setup(model, *(torch.optim.SGD(model.parameters(), lr=RATE) for _ in range(optimizers)))


@case
def an_early_strategy() -> str:
    """Runs first: no chip is loaded yet."""
    os.environ["DS_ACCELERATOR"] = "mlu"  # its package is not here
    found = refusal(lambda: DeepSpeedStrategy(stage=2))
    del os.environ["DS_ACCELERATOR"]
    return found


@case
def an_unattached_model() -> list[str]:
    """The strategy is called by hand, with a model that is attached to no Trainer."""
    strategy, model = trainer(DeepSpeedStrategy(stage=2)).strategy, Model()
    strategy.connect(model)
    strategy.setup_environment()
    strategy.model_to_device()
    where = [each.device.type for each in model.parameters()]
    strategy.on_train_start()
    found = refusal(lambda: strategy.load_checkpoint("absent.ckpt"))
    strategy.teardown()
    return [*where, found]


@case
def a_fabric() -> dict[str, list[float]]:
    found = {}
    for stage in (0, *SHARDED):
        host = fabric(of_fabric.DeepSpeedStrategy(stage=stage))
        model, optimizer = prepared(host)
        found[f"{stage}"] = step(host, model, optimizer)
        host.save("fabric.ckpt", {"model": model, "optimizer": optimizer, "steps": 4})
        again, second = prepared(host)
        state = {"model": again, "optimizer": second, "steps": 0}
        host.load("fabric.ckpt", state)
        found[f"{stage} loaded"] = [*step(host, again, second), state["steps"]]
    return found


@case
def a_fabrics_accumulation() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage in (0, 3):
        host = fabric(of_fabric.DeepSpeedStrategy(stage=stage))
        model, optimizer = prepared(host)
        step(host, model, optimizer, 2, every=4)
        found[f"{stage}"] = step(host, model, optimizer)
    for stage in (1, 2):
        host = fabric(of_fabric.DeepSpeedStrategy(stage=stage))
        model, optimizer = prepared(host)
        found[f"{stage}"] = refusal(partial(step, host, model, optimizer, size=2, every=4))
    return found


@case
def other_stages() -> dict[str, str]:
    for stage in (0, 2, 3):
        fit(DeepSpeedStrategy(stage=stage))[0].save_checkpoint(f"zero{stage}.ckpt")
    found = {}
    for saved, stage in ((3, 0), (2, 3), (0, 2), (2, 0), (2, 1)):
        more = {"ckpt_path": f"zero{saved}.ckpt", "weights_only": False}
        host = trainer(DeepSpeedStrategy(stage=stage), max_epochs=2)
        found[f"fit {saved} in {stage}"] = refusal(partial(host.fit, Model(), rows(), **more))
        host = trainer(DeepSpeedStrategy(stage=stage))
        found[f"validate {saved} in {stage}"] = refusal(partial(host.validate, Model(), rows(), verbose=False, **more))
    host = fabric(of_fabric.DeepSpeedStrategy(stage=0))
    model, _ = prepared(host)
    found["Fabric"] = refusal(partial(host.load, "zero3.ckpt", {"model": model}))
    return found


@case
def several_fits() -> dict[str, Any]:
    found: dict[str, Any] = {}
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    for number in range(2):
        found[f"fit {number}"] = fit(f"deepspeed_stage_{number + 2}")[1].losses
    found["warns"] = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(mode=False)
    fit()
    found["deterministic"] = torch.are_deterministic_algorithms_enabled()
    return found


@case
def the_second_device() -> list[str]:
    host, model = fit(devices=[1])
    return [*model.devices, str(host.strategy.root_device)]


@case
def accumulation() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage in SHARDED:
        host, model = fit(f"deepspeed_stage_{stage}", size=2, accumulate_grad_batches=4)
        model.losses = []
        host.validate(model, rows(), verbose=False)
        found[f"{stage}"] = model.losses
        found[f"{stage} by hand"] = refusal(partial(fit, f"deepspeed_stage_{stage}", Model(every=2)))
    return found


@case
def recomputed_activations() -> list[list[float]]:
    every: Any = {"partition_activations": True, "cpu_checkpointing": True}
    strategies = ("deepspeed_stage_2", "deepspeed_stage_3", DeepSpeedStrategy(stage=2, **every))
    return [fit(strategy, Model(checkpoints=True))[1].losses for strategy in strategies]


@case
def adagrad_with_one_rate() -> list[float]:
    losses: list[float] = fit(model=ByAdagrad())[1].losses
    return losses


@case
def an_optimizer_of_the_config() -> list[float]:
    optimizer = {"type": "AdamW", "params": {"lr": RATE, "weight_decay": 0.01}}
    losses: list[float] = fit(configured(optimizer=optimizer), Model(0))[1].losses
    return losses


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [record.getMessage()] * record.getMessage().startswith("DeepSpeed trains with ")


@case
def two_optimizers_of_different_places() -> dict[str, Any]:
    told = _Lines()
    found: dict[str, Any] = {}
    for each in ("fabric", "pytorch"):
        logging.getLogger(f"lightning.{each}").addHandler(told)
    zero = {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    untested = {"zero_allow_untested_optimizer": True}
    config = {"zero_optimization": zero, "optimizer": {"type": "Lamb", "params": {"lr": RATE}}, **untested}
    named: Any = VendorsDeepSpeed(config=config)
    host, model = fit(named)
    found["a vendor's name"] = [*model.losses, told.lines.pop()]
    host.fit(Model(), rows())
    found["again"] = told.lines.pop()
    found["unchanged"] = "optimizer" in config
    config = {"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": RATE}}, **untested}
    found["none of the module"] = [*fit(VendorsDeepSpeed(config=dict(config)), Model(0))[1].losses, told.lines.pop()]
    found["Lightning's name"] = [*fit(DeepSpeedStrategy(config=dict(config)))[1].losses, told.lines.pop()]
    host = fabric(of_fabric.DeepSpeedStrategy(config=dict(config)))
    found["a Fabric"] = [*step(host, *prepared(host)), told.lines.pop()]
    found["more"] = list(told.lines)
    return found


@case
def evaluation() -> dict[str, list[float]]:
    found = {}
    for stage in SHARDED:
        name = f"deepspeed_stage_{stage}"
        host = fit(name)[0]
        host.save_checkpoint("trained.ckpt")
        for path in (None, "trained.ckpt"):
            model = Model()
            trainer(name).validate(model, rows(), ckpt_path=path, verbose=False, weights_only=False)
            sums = trainer(name).predict(Model(), rows(), ckpt_path=path, weights_only=False)
            found[f"{stage} {path}"] = [*model.losses, torch.stack(sums).sum().item()]
    return found


@case
def a_full_disk() -> dict[str, str]:
    host = fit("deepspeed_stage_3")[0]
    host.save_checkpoint("room.ckpt")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        said = refusal(lambda: host.save_checkpoint("room.ckpt"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    drafts = [each.name for each in Path().iterdir() if each.suffix == ".part"]
    return {"said": said, "old": str(Path("room.ckpt", "checkpoint").is_dir()), "drafts": " ".join(drafts)}


def _fit_spread() -> Any:
    spread: Any = Model()
    spread.layers = nn.DataParallel(spread.layers)
    return fit(model=spread)


def _fit_for_cuda() -> Any:
    os.environ["DS_ACCELERATOR"] = "cuda"
    try:
        return fit()
    finally:
        del os.environ["DS_ACCELERATOR"]


def _read(name: str, text: str) -> Any:
    Path(name).write_text(text)
    return of_fabric.DeepSpeedStrategy(config=name)


def mixed() -> Any:
    return MixedPrecision("bf16-mixed", "cpu_sim")


ONE = "MisconfigurationException: DeepSpeed currently only supports single optimizer, single optional scheduler;"
FILE = "ArgumentValueError: DeepSpeed's config="
NO_PRECISION = (
    "UnsupportedError: DeepSpeed has no precision={!r}. Fix: one of 32-true, 16-mixed, 16-true, bf16-mixed, bf16-true"
)
ITS_OWN = (
    "UnsupportedError: DeepSpeed computes gradients by itself, without MixedPrecision. Fix: precision='bf16-mixed'"
)
DISK = "UnsupportedError: {} to 'nvme': DeepSpeed has no AsyncIO operator for 'cpu_sim'. Fix: offload to 'cpu'"
OF_INFERENCE = "UnsupportedError: {} is for init_inference(). Fix: leave it out; stage=3 shards predict()"
ADAGRAD = "UnsupportedError: ZeRO 2 drops Adagrad's groups and schedule. Fix: stage=0 or another optimizer"
PARAM = {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "."}}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a Fabric's accumulation": (
        lambda: fabric(of_fabric.DeepSpeedStrategy(config={"gradient_accumulation_steps": 4})),
        "UnsupportedError: a Fabric has no gradient_accumulation_steps. Fix: leave it out",
    ),
    "a Fabric's module without optimizer": (
        lambda: fabric("deepspeed").setup_module(layers()),
        "UnsupportedError: ZeRO 2 needs an optimizer. Fix: stage=3 or 0",
    ),
    "a Fabric's two optimizers": (
        lambda: prepared(fabric("deepspeed"), 2),
        "ValueError: Currently only one optimizer is supported with DeepSpeed. Got 2 optimizers instead.",
    ),
    "a Fabric's float64": (lambda: fabric("deepspeed", precision="64-true"), NO_PRECISION.format("64-true")),
    "a Fabric's plugin": (
        lambda: fabric("deepspeed", plugins=[fabric_plugins.MixedPrecision("bf16-mixed", "cpu_sim")]),
        ITS_OWN,
    ),
    **{key: (partial(lambda key: fit(configured(**{key: 1})), key), OF_INFERENCE.format(key)) for key in INFERENCE},
    "tp_size": (
        lambda: fit(configured(tensor_parallel={"tp_size": 1})),
        OF_INFERENCE.format("tensor_parallel.tp_size"),
    ),
    "disks by name": (lambda: fit("deepspeed_stage_3_offload_nvme"), DISK.format("offload_optimizer")),
    "disks of the config": (lambda: fit(configured(zero_optimization=PARAM)), DISK.format("offload_param")),
    "remote_device": (
        lambda: fit(DeepSpeedStrategy(stage=3, remote_device="nvme")),
        DISK.format("remote_device"),
    ),
    **{word: (partial(fit, precision=word), NO_PRECISION.format(word)) for word in ("64-true", "transformer-engine")},
    "plugin": (lambda: fit(plugins=[mixed()]), ITS_OWN),
    "plugin in the strategy": (lambda: fit(DeepSpeedStrategy(stage=2, precision_plugin=mixed())), ITS_OWN),
    "two optimizers": (
        lambda: fit(model=Model(2, every=1)),
        f"{ONE} configure_optimizers() returned 2 and 0. Fix: one optimizer with parameter groups",
    ),
    "no optimizer": (
        lambda: fit(model=Model(0)),
        f"{ONE} configure_optimizers() returned 0 and 0. Fix: one optimizer with parameter groups",
    ),
    "sync_batchnorm": (
        lambda: fit(sync_batchnorm=True),
        (
            "UnsupportedError: DeepSpeedStrategy ignores sync_batchnorm=True. Fix: call"
            " SyncBatchNorm.convert_sync_batchnorm() in configure_model()"
        ),
    ),
    "no dict": (
        lambda: fit(configured(zero_optimization=True)),
        "UnsupportedError: zero_optimization=True is not a dict. Fix: write its settings",
    ),
    "stage": (lambda: fit(DeepSpeedStrategy(stage=4)), "ArgumentValueError: ZeRO has no stage=4. Fix: 0, 1, 2 or 3"),
    "absent file": (
        lambda: DeepSpeedStrategy(config="absent.json"),
        f"{FILE}'absent.json': No such file or directory. Fix: name a JSON file",
    ),
    "no JSON": (
        lambda: _read("no.json", "stage: 2"),
        f"{FILE}'no.json': Expecting value: line 1 column 1 (char 0). Fix: name a JSON file",
    ),
    "no object": (
        lambda: _read("list.json", "[2]"),
        f"{FILE}'list.json' must be a JSON object. Fix: name a file with {{…}}",
    ),
    "no operator": (
        lambda: fit(configured(optimizer={"type": "Lamb", "params": {}}), Model(0)),
        "UnsupportedError: DeepSpeed has no Lamb for 'cpu_sim'. Fix: type='AdamW'",
    ),
    **{f"Adagrad's {what}": (partial(lambda what: fit(model=ByAdagrad(what)), what), ADAGRAD) for what in LOST},
    "DataParallel": (
        _fit_spread,
        (
            "UnsupportedError: 'layers' is torch.nn.DataParallel, which cannot run on 'cpu_sim': only CUDA runs several"
            " devices in one process. Fix: leave it out, and write strategy='ddp' for several devices"
        ),
    ),
    "DS_ACCELERATOR": (
        _fit_for_cuda,
        "VariableError: DS_ACCELERATOR='cuda' is not for 'cpu_sim'. Fix: unset it",
    ),
}


@case
def refusals() -> dict[str, str]:
    arguments: Any = {"replace_with_kernel_inject": True}
    found = {name: refusal(act) for name, (act, _) in REFUSED.items()}
    return {**found, "argument": refusal(lambda: DeepSpeedStrategy(stage=0, **arguments))}


def ranks_of_the_other_packages() -> None:
    lightning: Any = import_module("pytorch_lightning")
    model = type("Model", (_Steps, lightning.LightningModule), {})()
    options: Any = {"accelerator": "cpu_sim", "devices": 2, "use_distributed_sampler": False, **QUIET}
    host = lightning.Trainer(strategy="deepspeed_stage_3", max_epochs=1, **options)
    host.fit(model, rows())
    host.save_checkpoint("ranks.ckpt")
    strategy = import_module("pytorch_lightning.strategies").DeepSpeedStrategy(stage=3)
    host = lightning.Trainer(strategy=strategy, max_epochs=2, **options)
    host.fit(model, rows(), ckpt_path="ranks.ckpt", weights_only=False)
    found = {"devices": [*model.devices, str(host.strategy.root_device)], "losses": model.losses}
    fabrics = import_module("lightning_fabric").Fabric(accelerator="cpu_sim", devices=2, strategy="deepspeed")
    fabrics.launch()
    prepared_model, optimizer = prepared(fabrics)
    found["fabric"] = step(fabrics, prepared_model, optimizer)
    Path(f"{host.global_rank}.json").write_text(json.dumps(found))


def main(what: str) -> None:
    if what == "ranks":
        ranks_of_the_other_packages()
        return
    Path("found.json").write_text(json.dumps({name: run() for name, run in CASES.items()}))


def run(folder: Path, what: str) -> None:
    environ = with_engines({**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])})
    done = run_forked(Path(__file__), what, folder=folder, environ=environ)
    assert done.status == 0, done.said


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each case has returned, all in one process."""
    if not READY.exists():
        pytest.skip("DeepSpeed is not in .engines: make engines")
    folder = tmp_path_factory.mktemp("deepspeed")
    run(folder, "cases")
    read: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return read


def near(wanted: Any) -> Any:
    return pytest.approx(wanted, abs=1e-5)


def test_a_fabric_trains_saves_and_loads(found: dict[str, Any]) -> None:
    losses = by_torch(epochs=2)[1]

    for stage in (0, *SHARDED):
        assert found["a_fabric"][f"{stage}"] == near(losses[:4])  # DeepSpeed would clip by default
        assert found["a_fabric"][f"{stage} loaded"] == near([*losses[4:], 4])


def test_another_stage_reads_a_checkpoint_or_says_why_not(found: dict[str, Any]) -> None:
    def other(saved: int, stage: int) -> str:
        said = f"zero{saved}.ckpt is of ZeRO {saved}, which ZeRO {stage} cannot read. Fix: stage={saved}"
        return f"CheckpointError: {said}"

    assert found["other_stages"] == {
        "fit 3 in 0": other(3, 0),
        "validate 3 in 0": other(3, 0),
        "fit 2 in 3": other(2, 3),
        "validate 2 in 3": other(2, 3),
        "fit 0 in 2": other(0, 2),
        "validate 0 in 2": "no error",
        "fit 2 in 0": other(2, 0),
        "validate 2 in 0": "no error",
        "fit 2 in 1": "no error",
        "validate 2 in 1": "no error",
        "Fabric": other(3, 0),
    }


def test_an_early_strategy_names_the_wrong_variable(found: dict[str, Any]) -> None:
    assert found["an_early_strategy"] == (
        "VariableError: DS_ACCELERATOR='mlu': MLU_Accelerator requires torch_mlu, which is not installed on this"
        " system. Fix: unset it"
    )


def test_an_unattached_model_is_moved(found: dict[str, Any]) -> None:
    *where, said = found["an_unattached_model"]

    assert where == ["cpu_sim"] * 4
    assert said.startswith("FileNotFoundError: The provided path is not a valid DeepSpeed checkpoint: ")


def test_a_fabric_accumulates_or_says_why_not(found: dict[str, Any]) -> None:
    told = found["a_fabrics_accumulation"]
    model = by_torch(8)[0]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for inputs, labels in rows():
        loss = cross_entropy(model(inputs), labels)
        losses.append(loss.item())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()

    assert [told["0"], told["3"]] == [near(losses)] * 2
    for stage in (1, 2):
        assert told[f"{stage}"] == (
            f"UnsupportedError: ZeRO {stage} cannot add the gradients of two backward(). Fix: add the losses"
        )


def test_a_process_fits_several_times(found: dict[str, Any]) -> None:
    losses = by_torch()[1]

    assert found["several_fits"] == {
        "fit 0": near(losses),
        "fit 1": near(losses),
        "warns": True,
        "deterministic": False,
    }


def test_a_rank_is_on_the_device_of_devices(found: dict[str, Any]) -> None:
    assert found["the_second_device"] == ["cpu_sim:1"] * 3


@pytest.mark.parametrize("what", REFUSED)
def test_what_deepspeed_lacks_is_refused(found: dict[str, Any], what: str) -> None:
    assert found["refusals"][what] == REFUSED[what][1]


def test_argument_of_inference_is_pythons_error(found: dict[str, Any]) -> None:
    assert "unexpected keyword argument 'replace_with_kernel_inject'" in found["refusals"]["argument"]


@needs_engines
def test_two_ranks_of_the_other_packages_train(tmp_path: Path) -> None:
    """Each on its own device. A Fabric's sampler gives each rank half of the rows."""
    run(tmp_path, "ranks")

    losses = by_torch(epochs=2)[1]
    for rank in range(2):
        told = json.loads((tmp_path / f"{rank}.json").read_text())
        assert told["devices"] == [f"cpu_sim:{rank}"] * 3
        assert told["losses"] == near(losses)
        assert len(told["fabric"]) == 2


def test_accumulated_gradients_are_the_larger_batchs(found: dict[str, Any]) -> None:
    model, losses = by_torch(8)[0], found["accumulation"]

    assert [losses[f"{stage}"] for stage in SHARDED] == [near(evaluated(model))] * 3
    assert losses["3 by hand"] == "no error"
    for stage in (1, 2):
        assert f"ZeRO {stage} cannot add the gradients" in losses[f"{stage} by hand"]


def test_recomputed_activations_change_no_loss(found: dict[str, Any]) -> None:
    assert found["recomputed_activations"] == [near(by_torch()[1])] * 3


def test_adagrad_with_one_rate_trains_as_in_torch(found: dict[str, Any]) -> None:
    assert found["adagrad_with_one_rate"] == near(by_torch(kind=torch.optim.Adagrad)[1])


def test_the_config_may_name_the_optimizer(found: dict[str, Any]) -> None:
    assert found["an_optimizer_of_the_config"] == near(by_torch(kind=torch.optim.AdamW)[1])


def test_a_line_tells_which_optimizer_trains(found: dict[str, Any]) -> None:
    """The module's under a vendor's name and in a Fabric; the configuration's under Lightning's own name."""
    told, by_sgd = found["two_optimizers_of_different_places"], by_torch()[1]
    by_adam = by_torch(kind=partial(torch.optim.AdamW, weight_decay=0.0))[1]

    assert told["a vendor's name"][:-1] == told["a Fabric"][:-1] == near(by_sgd)
    assert told["none of the module"][:-1] == told["Lightning's name"][:-1] == near(by_adam)
    assert (told.pop("unchanged"), told.pop("more")) == (True, [])
    assert told.pop("again") == told["a vendor's name"][-1]
    assert {name: run[-1] for name, run in told.items()} == {
        "a vendor's name": "DeepSpeed trains with SGD of configure_optimizers(), not with Lamb of its config",
        "none of the module": "DeepSpeed trains with AdamW of its config; configure_optimizers() returned none",
        "Lightning's name": "DeepSpeed trains with AdamW of its config; configure_optimizers() is not called",
        "a Fabric": "DeepSpeed trains with SGD of setup(), not with AdamW of its config",
    }


def test_every_stage_evaluates_with_a_checkpoint_and_without(found: dict[str, Any]) -> None:
    inputs = torch.cat([batch[0] for batch in rows()])
    for path, model in ((None, layers()), ("trained.ckpt", by_torch()[0])):
        wanted = [*evaluated(model), model(inputs).sum().item()]
        assert [found["evaluation"][f"{stage} {path}"] for stage in SHARDED] == [pytest.approx(wanted, abs=1e-4)] * 3


def test_full_disk_is_an_error_that_keeps_the_old_checkpoint(found: dict[str, Any]) -> None:
    told = found["a_full_disk"]

    assert told["said"].startswith("CheckpointError: room.ckpt could not be written: ")
    assert "; an old file is untouched. Fix: make room in ." in told["said"]
    assert (told["old"], told["drafts"]) == ("True", "")


class _Asking:
    """An accelerator whose builders read a variable, and know some names, as they are made."""

    def create_op_builder(self, name: str) -> str:
        return os.environ["ACME_HOME"] + {"ShareMemCommBuilder": "/ops"}[name]


class _KnowingNone(_Asking):
    def create_op_builder(self, name: str) -> str:
        return super().create_op_builder(f"No{name}")


def test_a_variable_that_builders_need_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a KeyError of DeepSpeed's own, in the midst of the start of the process group."""
    backend = northbridge.get("cpu_sim")
    monkeypatch.setenv("ACME_HOME", "/acme")
    check_builders(backend, _Asking())

    monkeypatch.delenv("ACME_HOME")
    with pytest.raises(northbridge.VariableError) as refusal:
        check_builders(backend, _Asking())

    assert str(refusal.value) == (
        "DeepSpeed on 'cpu_sim' needs ACME_HOME, which is not set. Fix: source the vendor's set-up script"
    )
    assert refusal.value.variable == "ACME_HOME"


def test_an_error_about_another_name_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_HOME", "/acme")

    with pytest.raises(KeyError, match="NoShareMemCommBuilder"):
        check_builders(northbridge.get("cpu_sim"), _KnowingNone())


if __name__ == "__main__":
    main(sys.argv[1])
