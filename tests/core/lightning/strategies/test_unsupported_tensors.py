"""Sparse gradients, sparse and complex tensors of a model: refused before training where they would fail in it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build
from torch import nn

from northbridge.discovery.named import load
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies import unsupported
from northbridge.lightning.strategies.unsupported import reject_to_add_sparse_gradients

ADDED = "'words' is {}(sparse=True), but 'simccl' cannot add up sparse gradients. Fix: {}"
HELD = "'words' is {}(sparse=True), but 'cpu_sim' has no sparse tensors (it says so). Fix: {}"
DENSE = "sparse=False, and Adam instead of SparseAdam"

pytestmark = pytest.mark.filterwarnings(
    "ignore:Sparse CSR tensor support is in beta:UserWarning",
    "ignore:Sparse invariant checks are implicitly disabled:UserWarning",
    "ignore:The .*_dataloader.* does not have many workers:UserWarning",
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning",
)


def model_of(namespace: Namespace, layer: nn.Module, tensor: torch.Tensor | None = None) -> Any:
    """A model with `layer` for a host of `namespace`, and a buffer."""
    kind: Any = importlib.import_module(namespace.name).LightningModule if namespace.is_trainer else nn.Module

    class Model(kind):  # type: ignore[misc]  # a class of this namespace, known at run time
        def __init__(self) -> None:
            super().__init__()
            self.words = layer
            self.register_buffer("given", tensor)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss: torch.Tensor = self.words(batch[0]).sum()
            return loss

        def predict_step(self, batch: Any, index: int) -> torch.Tensor:
            found: torch.Tensor = self.words(batch[0])
            return found

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Model()


def batches() -> Any:
    data = torch.utils.data.TensorDataset(torch.arange(4).view(4, 1))
    return torch.utils.data.DataLoader(data, batch_size=2)


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


def refusal(attempt: Callable[[], object], capability: str = "sparse") -> str:
    with pytest.raises(UnsupportedError) as caught:
        attempt()
    assert caught.value.capability == capability
    return str(caught.value)


@pytest.fixture
def no_sparse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the chip have no sparse tensors; the simulated Gaudi's SparseAdam has none."""
    monkeypatch.setattr(unsupported, "_why_no_sparse", lambda device: "it says so")
    return iter(())


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

    assert refusal(wrap) == ADDED.format(kind.__name__, DENSE)


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
    backend = load("cpu_sim")
    refusal(lambda: reject_to_add_sparse_gradients(backend, model, torch.device("cpu_sim")))

    change(model)

    reject_to_add_sparse_gradients(backend, model, torch.device("cpu_sim"))


@pytest.mark.usefixtures("no_sparse")
def test_sparse_gradients_on_a_chip_without_them_are_refused(namespace: Namespace, host: Any) -> None:
    model = model_of(namespace, nn.Embedding(4, 2, sparse=True))

    assert refusal(lambda: train(namespace, host, model)) == HELD.format("Embedding", DENSE)


@pytest.mark.usefixtures("no_sparse")
def test_prediction_needs_no_sparse_gradients(trainer_namespace: Namespace) -> None:
    host: Any = importlib.import_module(trainer_namespace.name).Trainer
    quiet: dict[str, Any] = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = host(accelerator="cpu_sim", devices=1, **quiet)

    assert len(trainer.predict(model_of(trainer_namespace, nn.Embedding(4, 2, sparse=True)), batches())) == 2


@pytest.mark.usefixtures("no_sparse")
def test_a_sparse_buffer_on_a_chip_without_them_is_refused(namespace: Namespace, host: Any) -> None:
    model = model_of(namespace, nn.Embedding(4, 2), torch.eye(2).to_sparse())

    said = refusal(lambda: train(namespace, host, model))

    assert said == "the buffer 'given' is sparse, but 'cpu_sim' has no sparse tensors (it says so). Fix: to_dense()"


def test_a_compressed_buffer_is_refused(namespace: Namespace, host: Any) -> None:
    model = model_of(namespace, nn.Embedding(4, 2), torch.eye(2).to_sparse_csr())

    said = refusal(lambda: train(namespace, host, model))

    assert said == "the buffer 'given' is sparse_csr, but 'cpu_sim' does not support it. Fix: to_dense()"


def nested(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
def test_a_nested_buffer_is_refused(namespace: Namespace, host: Any) -> None:
    model = model_of(namespace, nn.Embedding(4, 2), nested(torch.strided))

    said = refusal(lambda: train(namespace, host, model), "nested")

    assert said == "the buffer 'given' is nested, but 'cpu_sim' has no nested tensors. Fix: to_padded_tensor(0.0)"


def test_a_jagged_buffer_passes(namespace: Namespace, host: Any) -> None:
    train(namespace, host, model_of(namespace, nn.Embedding(4, 2), nested(torch.jagged)))


@pytest.mark.parametrize("tensor", [torch.eye(2).to_sparse(), torch.ones(2, dtype=torch.complex64)])
def test_what_the_chip_holds_passes(namespace: Namespace, host: Any, tensor: torch.Tensor) -> None:
    model = model_of(namespace, nn.Embedding(4, 2), tensor)

    train(namespace, host, model)


def test_unsupported_complex_is_refused(namespace: Namespace, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsupported, "_why_no_dtype", lambda dtype, device: "it says so")
    model = model_of(namespace, nn.Embedding(4, 2, dtype=torch.complex64))

    said = refusal(lambda: train(namespace, host, model), "complex")

    refused = "the parameter 'words.weight' is complex64, but 'cpu_sim' cannot hold it (it says so)"
    assert said == f"{refused}. Fix: torch.view_as_real()"
