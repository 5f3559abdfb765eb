"""Unsupported features that a user asks for, and tensors that would fail in training."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, of_fabrics, refusal as refused
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from northbridge.capabilities import DENIABLE, LEVEL_CLAIMS, no, yes
from northbridge.discovery.declared import load
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies import unsupported
from northbridge.lightning.strategies.unsupported import TRAINING_CLAIMS, reject_to_add_sparse_gradients

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),  # Lightning's
    pytest.mark.filterwarnings("ignore:The .*_dataloader.* does not have many workers:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]

DENIED = no("its driver is a sketch")
PINS = "DataLoader(pin_memory=True): 'cpu_sim' has no pinned memory: its driver is a sketch. Fix: leave pin_memory= out"
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
    return refused(UnsupportedError, attempt, capability=capability)


def test_every_claim_of_training_can_be_denied() -> None:
    others = {"sync_batchnorm", "sharding", "fsdp", "inference_mode"}

    assert set(TRAINING_CLAIMS) == {*LEVEL_CLAIMS["C2"], *LEVEL_CLAIMS["C3"], *others} - DENIABLE


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
    net = nn.Linear(1, 1)

    said = refusal(lambda: fabric().setup(net, torch.optim.SGD(net.parameters())), "fit")

    assert said.startswith("'cpu_sim' does not support training")
    assert fabric().setup(nn.Linear(1, 1))(torch.ones(1, device="cpu_sim")).numel() == 1


def test_a_checkpoint_is_refused(trainer: Build, module: Any, fabric: Build, claims: Claims, tmp_path: Path) -> None:
    """At once, where the Trainer is to keep some."""
    claims(checkpoint=DENIED)
    keeping, host = trainer(enable_checkpointing=True, default_root_dir=tmp_path), trainer()

    said = refusal(lambda: keeping.fit(module), "checkpoint")
    assert said.startswith(SAID.format("checkpoints", "Trainer(enable_checkpointing=False)"))
    assert keeping.global_step == 0
    host.fit(module)
    for save in (
        lambda: host.save_checkpoint(tmp_path / "trainers.ckpt"),
        lambda: fabric().save(tmp_path / "fabrics.ckpt", {"net": nn.Linear(1, 1)}),
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
    host, net = fabric(), nn.Linear(1, 1)
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


@pytest.fixture
def spread_over(namespace: Namespace, build: Build) -> Callable[[int], int]:
    """Ask for a sharded model on so many devices; return the number of ranks."""
    sharded: Any = importlib.import_module(f"{namespace.name}.strategies").ModelParallelStrategy
    more: dict[str, Any] = {} if namespace.is_trainer else {"parallelize_fn": lambda model, _mesh: model}
    return lambda devices: build(accelerator="cpu_sim", devices=devices, strategy=sharded(**more)).strategy.world_size


def test_shards_need_the_collectives_and_no_averages(
    spread_over: Callable[[int], int], build: Build, claims: Claims
) -> None:
    """And a chip that does not deny them."""
    claims(ddp_averaging=DENIED)
    assert spread_over(2) == 2

    claims(sum_all_reduce=DENIED)
    said = refusal(lambda: spread_over(2), "sum_all_reduce")
    assert said.startswith("'cpu_sim' does not support all_reduce, which several ranks need")

    claims(ddp_averaging=yes, sum_all_reduce=yes, sharding=DENIED)
    said = refusal(lambda: spread_over(2), "sharding")
    assert said == SAID.format("FSDP2 and tensor parallel", "strategy='ddp', or devices=1")
    assert spread_over(1) == 1
    assert build(accelerator="cpu_sim", devices=2, strategy="ddp").strategy.world_size == 2


def test_torchs_synchronized_batch_norm_is_refused(namespace: Namespace, build: Build, claims: Claims) -> None:
    claims(sync_batchnorm=DENIED)
    strategy = build(accelerator="cpu_sim", devices=1, strategy="ddp").strategy
    layers: Any = nn.SyncBatchNorm(2)

    said = refusal(lambda: strategy._drive_sync_batch_norm(nn.Sequential(layers)), "sync_batchnorm")

    assert said == SAID.format("torch's SyncBatchNorm", "leave convert_sync_batchnorm() out")
    strategy._drive_sync_batch_norm(nn.Sequential(nn.BatchNorm1d(2)))


def test_evaluation_uses_no_inference_mode_if_denied(trainer: Build, module: Any, claims: Claims) -> None:
    modes: set[tuple[bool, bool]] = set()
    module.layer.register_forward_hook(
        lambda *_: modes.add((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
    )
    loader = module.val_dataloader()

    trainer(limit_val_batches=1).validate(module, loader, verbose=False)
    assert modes == {(True, False)}
    modes.clear()
    claims(inference_mode=DENIED)
    trainer(limit_val_batches=1).validate(module, loader, verbose=False)
    trainer(limit_test_batches=1).test(module, loader, verbose=False)
    trainer(limit_predict_batches=1).predict(module, loader)
    assert modes == {(False, False)}


def test_a_users_own_inference_mode_is_refused(fabric: Build, claims: Claims) -> None:
    claims(inference_mode=DENIED)
    host = fabric()
    net = host.setup(nn.Linear(1, 1))

    with torch.inference_mode():
        said = refusal(lambda: net(host.to_device(torch.ones(1))), "inference_mode")

    assert said == SAID.format("torch.inference_mode()", "torch.no_grad()")


@pytest.fixture
def spread(module: Any) -> Any:
    """The model, with a layer that would spread its batch over the devices of this process."""
    load("cpu_sim")
    module.layer = nn.DataParallel(module.layer)
    return module


SPREADS = (
    "{} torch.nn.DataParallel, which cannot run on 'cpu_sim': only CUDA runs several devices in one process. Fix: leave"
    " it out, and write strategy='ddp' for several devices"
)


def test_data_parallel_is_refused_in_a_trainer(trainer: Build, spread: Any) -> None:
    """Unless it was made before the chip was loaded, when torch knew no devices."""
    for act in (trainer().fit, trainer().predict):
        assert refusal(partial(act, spread), "strategy dp") == SPREADS.format("'layer' is")

    spread.layer.device_ids = []
    host = trainer()
    host.fit(spread)
    assert host.global_step == 1


@pytest.mark.parametrize("strategy", ["auto", "ddp", "fsdp"])
def test_data_parallel_is_refused_in_a_fabric(strategy: str, spread: Any) -> None:
    fabric: Any = importlib.import_module("lightning.fabric")
    host = fabric.Fabric(accelerator="cpu_sim", devices=1, strategy=strategy)
    setup = host.strategy.setup_module if strategy != "auto" else host.setup

    assert refusal(lambda: setup(spread), "strategy dp") == SPREADS.format("'layer' is")
    assert refusal(lambda: setup(spread.layer), "strategy dp") == SPREADS.format("the module is")


# --- Sparse gradients, sparse, nested and complex tensors of a model


ADDED = "'words' is {}(sparse=True), but 'simccl' cannot add up sparse gradients. Fix: {}"
HELD = "'words' is {}(sparse=True), but 'cpu_sim' has no sparse tensors (it says so). Fix: {}"
DENSE = "sparse=False, and Adam instead of SparseAdam"


def model_of(namespace: Namespace, layer: nn.Module, tensor: torch.Tensor | None = None) -> Any:
    """A model with `layer` for a host of `namespace`, and a buffer."""
    kind: Any = importlib.import_module(namespace.name).LightningModule if namespace.is_trainer else nn.Module
    model = kind()
    model.words = layer
    model.register_buffer("given", tensor)
    model.training_step = lambda batch: layer(batch[0]).sum()
    model.predict_step = lambda batch: layer(batch[0])
    model.configure_optimizers = lambda: torch.optim.SGD(model.parameters(), lr=0.1)
    return model


def batches() -> Any:
    return DataLoader(TensorDataset(torch.arange(4).view(4, 1)), batch_size=2)


def pinned_batches() -> Any:
    return DataLoader(TensorDataset(torch.ones(2, 32)), pin_memory=True)


def train(namespace: Namespace, host: Any, model: Any) -> None:
    if namespace.is_trainer:
        host.fit(model, batches())
        return
    module, optimizer = host.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    host.backward(module.words(torch.zeros(2, 1, dtype=torch.int64, device=host.device)).sum())
    optimizer.step()


@pytest.fixture
def host(namespace: Namespace, build: Build) -> Any:
    """A Trainer of one step, or a Fabric, on one device."""
    return build(accelerator="cpu_sim", devices=1, **({"max_steps": 1} if namespace.is_trainer else {}))


@pytest.fixture
def no_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the chip have no sparse tensors; the simulated Gaudi's SparseAdam has none."""
    monkeypatch.setattr(unsupported, "_why_no_sparse", lambda device: "it says so")


@pytest.mark.parametrize("act", ["fit", "validate", "test", "predict"])
def test_pinned_batches_are_refused_in_a_trainer(trainer: Build, module: Any, claims: Claims, act: str) -> None:
    claims(pinned_memory=DENIED)

    assert refusal(lambda: getattr(trainer(), act)(module, pinned_batches()), "pinned_memory") == PINS


@of_fabrics
def test_pinned_batches_are_refused_in_a_fabric(namespace: Namespace, build: Build, claims: Claims) -> None:
    """But not outside of it, where torch decides."""
    claims(pinned_memory=DENIED)
    host, pinned = build(accelerator="cpu_sim", devices=1), pinned_batches()

    assert refusal(lambda: host.setup_dataloaders(batches(), pinned), "pinned_memory") == PINS
    assert len(list(pinned)) == 2


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_over_ranks_are_refused(namespace: Namespace, build: Build, kind: type[nn.Embedding]) -> None:
    host = build(accelerator="cpu_sim", devices=2, strategy="ddp")
    model = model_of(namespace, kind(4, 2, sparse=True))
    strategy = host.strategy

    def wrap() -> None:
        if namespace.is_trainer:
            strategy.model = model
            strategy.configure_ddp()
        else:
            strategy.setup_module(model)

    assert refusal(wrap, "sparse") == ADDED.format(kind.__name__, DENSE)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_on_one_device_train(namespace: Namespace, host: Any, kind: type[nn.Embedding]) -> None:
    model = model_of(namespace, kind(4, 2, sparse=True))
    before = model.words.weight.detach().clone()

    train(namespace, host, model)

    assert not torch.equal(model.words.weight.detach().cpu(), before)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model.words, "sparse", False),
        lambda model: model.words.requires_grad_(False),
        lambda model: setattr(model, "_ddp_params_and_buffers_to_ignore", ["words.weight"]),
    ],
    ids=["dense", "not learning", "ignored by DDP"],
)
def test_layers_without_sparse_gradients_pass(trainer_namespace: Namespace, change: Callable[[Any], object]) -> None:
    model = model_of(trainer_namespace, nn.Embedding(4, 2, sparse=True))
    refusal(lambda: reject_to_add_sparse_gradients("simccl", model, torch.device("cpu_sim")), "sparse")

    change(model)

    reject_to_add_sparse_gradients("simccl", model, torch.device("cpu_sim"))


@pytest.mark.usefixtures("no_sparse")
def test_sparse_gradients_on_a_chip_without_them_are_refused(namespace: Namespace, host: Any) -> None:
    """But a prediction needs none."""
    model = model_of(namespace, nn.Embedding(4, 2, sparse=True))

    assert refusal(lambda: train(namespace, host, model), "sparse") == HELD.format("Embedding", DENSE)
    if namespace.is_trainer:
        assert len(host.predict(model, batches())) == 2


def nested(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
@pytest.mark.parametrize(
    ("make", "capability", "said"),
    [
        (torch.Tensor.to_sparse, "sparse", "sparse, but 'cpu_sim' has no sparse tensors (it says so). Fix: to_dense()"),
        (torch.Tensor.to_sparse_csr, "sparse", "sparse_csr, but 'cpu_sim' does not support it. Fix: to_dense()"),
        (
            lambda _: nested(torch.strided),
            "nested",
            "nested, but 'cpu_sim' has no nested tensors. Fix: to_padded_tensor(0.0)",
        ),
    ],
    ids=["sparse", "compressed", "nested"],
)
def test_a_buffer_is_refused(
    namespace: Namespace, host: Any, make: Any, capability: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if make is torch.Tensor.to_sparse:
        monkeypatch.setattr(unsupported, "_why_no_sparse", lambda device: "it says so")
    model = model_of(namespace, nn.Embedding(4, 2), make(torch.eye(2)))

    assert refusal(lambda: train(namespace, host, model), capability) == f"the buffer 'given' is {said}"


@pytest.mark.parametrize(
    "tensor",
    [torch.eye(2).to_sparse(), torch.ones(2, dtype=torch.complex64), None],
    ids=["sparse", "complex", "jagged"],
)
def test_what_the_chip_holds_passes(namespace: Namespace, host: Any, tensor: torch.Tensor | None) -> None:
    given = nested(torch.jagged) if tensor is None else tensor

    train(namespace, host, model_of(namespace, nn.Embedding(4, 2), given))


def test_unsupported_complex_is_refused(namespace: Namespace, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsupported, "_why_no_dtype", lambda dtype, device: "it says so")
    model = model_of(namespace, nn.Embedding(4, 2, dtype=torch.complex64))

    said = refusal(lambda: train(namespace, host, model), "complex")

    refused = "the parameter 'words.weight' is complex64, but 'cpu_sim' cannot hold it (it says so)"
    assert said == f"{refused}. Fix: torch.view_as_real()"
