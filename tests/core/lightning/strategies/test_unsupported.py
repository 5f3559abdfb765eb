"""Unsupported features that a user asks for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims

from northbridge.capabilities import DENIABLE, LEVEL_CLAIMS, Claim, no
from northbridge.discovery.named import load
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.unsupported import TRAINING_CLAIMS

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),  # Lightning's
    pytest.mark.filterwarnings("ignore:The .*_dataloader.* does not have many workers:UserWarning"),
]

DENIED = no("its driver is a sketch")
SAID = "'cpu_sim' does not support {}: its driver is a sketch. Fix: {}"


@pytest.fixture
def module(trainer_namespace: Namespace) -> Any:
    """A model to train."""
    demos: Any = importlib.import_module(f"{trainer_namespace.name}.demos.boring_classes")
    return demos.BoringModel()


@pytest.fixture
def trainer(trainer_namespace: Namespace) -> Build:
    """Build a Trainer that trains for a step."""
    host: Any = importlib.import_module(trainer_namespace.name).Trainer
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return lambda **arguments: host(**{"accelerator": "cpu_sim", "devices": 1, "max_steps": 1, **quiet, **arguments})


@pytest.fixture
def fabric() -> Build:
    """Build a Fabric of one device."""
    host: Any = importlib.import_module("lightning.fabric")
    return lambda: host.Fabric(accelerator="cpu_sim", devices=1)


def refusal(attempt: Callable[[], object], capability: str) -> str:
    """Return what is said where ``attempt`` is refused for the lack of ``capability``."""
    with pytest.raises(UnsupportedError) as caught:
        attempt()
    assert caught.value.capability == capability
    return str(caught.value)


def test_every_claim_of_training_can_be_denied() -> None:
    assert (
        set(TRAINING_CLAIMS)
        == {
            *LEVEL_CLAIMS["C2"],
            *LEVEL_CLAIMS["C3"],
            "sync_batchnorm",
            "sharding",
            "fsdp",
            "inference_mode",
        }
        - DENIABLE
    )


def test_a_chip_that_denies_training_still_predicts(trainer: Build, module: Any, claims: Claims) -> None:
    claims(fit=DENIED)

    said = refusal(lambda: trainer().fit(module), "fit")

    assert said == (
        "'cpu_sim' does not support training: its driver is a sketch. Fix: use another accelerator; validation and"
        " prediction are allowed"
    )
    assert len(trainer().predict(module, module.predict_dataloader())) == 64


def test_fabric_sets_up_no_optimizer_if_training_is_denied(fabric: Build, claims: Claims) -> None:
    claims(fit=DENIED)
    net = torch.nn.Linear(1, 1)

    said = refusal(lambda: fabric().setup(net, torch.optim.SGD(net.parameters())), "fit")

    assert said.startswith("'cpu_sim' does not support training")
    assert fabric().setup(torch.nn.Linear(1, 1))(torch.ones(1, device="cpu_sim")).numel() == 1


def test_keeping_checkpoints_is_refused_at_once(trainer: Build, module: Any, claims: Claims, tmp_path: Path) -> None:
    claims(checkpoint=DENIED)
    host = trainer(enable_checkpointing=True, default_root_dir=tmp_path)

    said = refusal(lambda: host.fit(module), "checkpoint")

    assert said.startswith(SAID.format("checkpoints", "Trainer(enable_checkpointing=False)"))
    assert host.global_step == 0


def test_a_checkpoint_is_refused(trainer: Build, module: Any, fabric: Build, claims: Claims, tmp_path: Path) -> None:
    claims(checkpoint=DENIED)
    host = trainer()
    host.fit(module)

    for save in (
        lambda: host.save_checkpoint(tmp_path / "trainers.ckpt"),
        lambda: fabric().save(tmp_path / "fabrics.ckpt", {"net": torch.nn.Linear(1, 1)}),
    ):
        assert refusal(save, "checkpoint").startswith(SAID.format("checkpoints", ""))
    assert list(tmp_path.iterdir()) == []


def test_a_fit_denied_to_go_on_still_reads_weights(trainer: Build, module: Any, claims: Claims, tmp_path: Path) -> None:
    saved = trainer()
    saved.fit(module)
    saved.save_checkpoint(tmp_path / "last.ckpt")
    claims(resume=DENIED)

    said = refusal(lambda: trainer(max_steps=2).fit(module, ckpt_path=tmp_path / "last.ckpt"), "resume")

    assert said == SAID.format("resuming training", "leave ckpt_path= or Fabric.load() out")
    trainer().validate(module, ckpt_path=tmp_path / "last.ckpt", verbose=False)


def test_a_fabric_without_optimizers_still_reads_weights(fabric: Build, claims: Claims, tmp_path: Path) -> None:
    host, net = fabric(), torch.nn.Linear(1, 1)
    net, optimizer = host.setup(net, torch.optim.SGD(net.parameters()))
    host.save(tmp_path / "last.ckpt", {"net": net, "optimizer": optimizer})
    claims(resume=DENIED)
    host = fabric()

    said = refusal(lambda: host.load(tmp_path / "last.ckpt", {"net": net, "optimizer": optimizer}), "resume")

    assert said.startswith(SAID.format("resuming training", ""))
    assert set(host.load(tmp_path / "last.ckpt", {"net": net})) == {"optimizer"}


@pytest.mark.parametrize("claim", LEVEL_CLAIMS["C3"])
def test_ranks_that_lack_a_need_are_not_built(namespace: Namespace, build: Build, claims: Claims, claim: str) -> None:
    claims(**{claim: DENIED})

    said = refusal(lambda: build(accelerator="cpu_sim", devices=2), claim)

    assert said == SAID.format(TRAINING_CLAIMS[claim][0], "devices=1")
    assert build(accelerator="cpu_sim", devices=1, strategy="ddp").strategy.world_size == 1


@pytest.mark.parametrize(("claim", "is_refused"), [("sum_all_reduce", True), ("ddp_averaging", False)])
def test_shards_need_the_collectives_and_no_averages(
    namespace: Namespace, build: Build, claims: Claims, claim: str, is_refused: bool
) -> None:
    claims(**{claim: DENIED})
    sharded: Any = importlib.import_module(f"{namespace.name}.strategies").ModelParallelStrategy

    def ask() -> Any:
        more = {} if namespace.is_trainer else {"parallelize_fn": lambda model, _mesh: model}
        return build(accelerator="cpu_sim", devices=2, strategy=sharded(**more)).strategy

    if is_refused:
        assert refusal(ask, claim).startswith("'cpu_sim' does not support all_reduce, which several ranks need")
    else:
        assert ask().world_size == 2


def test_a_model_is_not_spread_where_the_chip_denies_it(namespace: Namespace, build: Build, claims: Claims) -> None:
    claims(sharding=DENIED)
    more: dict[str, Any] = {} if namespace.is_trainer else {"parallelize_fn": lambda model, _mesh: model}
    sharded: Any = importlib.import_module(f"{namespace.name}.strategies").ModelParallelStrategy

    said = refusal(lambda: build(accelerator="cpu_sim", devices=2, strategy=sharded(**more)), "sharding")

    assert said == SAID.format("FSDP2 and tensor parallel", "strategy='ddp', or devices=1")
    assert build(accelerator="cpu_sim", devices=1, strategy=sharded(**more)).strategy.world_size == 1
    assert build(accelerator="cpu_sim", devices=2, strategy="ddp").strategy.world_size == 2


def test_torchs_synchronized_batch_norm_is_refused(namespace: Namespace, build: Build, claims: Claims) -> None:
    claims(sync_batchnorm=DENIED)
    strategy = build(accelerator="cpu_sim", devices=1, strategy="ddp").strategy
    layers: Any = torch.nn.SyncBatchNorm(2)

    said = refusal(lambda: strategy._drive_sync_batch_norm(torch.nn.Sequential(layers)), "sync_batchnorm")

    assert said == SAID.format("torch's SyncBatchNorm", "leave convert_sync_batchnorm() out")
    strategy._drive_sync_batch_norm(torch.nn.Sequential(torch.nn.BatchNorm1d(2)))


@pytest.fixture
def spread(module: Any) -> Any:
    """The model, with a layer that would spread its batch over the devices of this process."""
    load("cpu_sim")
    module.layer = torch.nn.DataParallel(module.layer)
    return module


SPREADS = (
    "{} torch.nn.DataParallel, which cannot run on 'cpu_sim': only CUDA runs several devices in one process. Fix: leave"
    " it out, and write strategy='ddp' for several devices"
)


def test_data_parallel_is_refused_in_a_trainer(trainer: Build, spread: Any) -> None:
    for act in (trainer().fit, trainer().predict):
        assert refusal(partial(act, spread), "strategy dp") == SPREADS.format("'layer' is")


@pytest.mark.parametrize("strategy", ["auto", "ddp", "fsdp"])
def test_data_parallel_is_refused_in_a_fabric(strategy: str, spread: Any) -> None:
    fabric: Any = importlib.import_module("lightning.fabric")
    host = fabric.Fabric(accelerator="cpu_sim", devices=1, strategy=strategy)
    setup = host.strategy.setup_module if strategy != "auto" else host.setup

    assert refusal(lambda: setup(spread), "strategy dp") == SPREADS.format("'layer' is")
    assert refusal(lambda: setup(spread.layer), "strategy dp") == SPREADS.format("the module is")


def test_data_parallel_before_the_chip_trains(trainer: Build, spread: Any) -> None:
    """torch knew no devices when it was made."""
    spread.layer.device_ids = []
    host = trainer()

    host.fit(spread)

    assert host.global_step == 1


@pytest.mark.parametrize("claim", [Claim("unknown"), Claim("yes")])
def test_what_is_claimed_or_unknown_is_tried(trainer: Build, module: Any, claims: Claims, claim: Claim) -> None:
    claims(**dict.fromkeys(TRAINING_CLAIMS, claim))
    host = trainer()

    host.fit(module)

    assert host.global_step == 1
    assert load("cpu_sim").capabilities.fit == claim
