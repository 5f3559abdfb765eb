"""Train, in each of Lightning's namespaces, what a Gaudi does not have: python unsupported.py"""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import northbridge

MODELS: dict[str, Callable[[], dict[str, nn.Module]]] = {
    "sparse gradients": lambda: {"words": nn.Embedding(4, 2, sparse=True)},
    "a bag of them": lambda: {"words": nn.EmbeddingBag(4, 2, sparse=True)},
    "complex": lambda: {"waves": nn.Linear(2, 2, dtype=torch.complex64)},
    "sparse": lambda: {"graph": nn.ParameterDict({"edges": nn.Parameter(torch.eye(2).to_sparse(), False)})},
}


def train(namespace: str, layers: dict[str, nn.Module]) -> None:
    lightning: Any = importlib.import_module(namespace)
    if "fabric" in namespace:
        model = nn.ModuleDict(layers)
        fabric = lightning.Fabric(accelerator="hpu", devices=1)
        fabric.setup(model, torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1))
        return

    class Model(lightning.LightningModule):  # type: ignore[misc]  # known at run time
        def __init__(self) -> None:
            super().__init__()
            for name, layer in layers.items():
                self.add_module(name, layer)

        def training_step(self, batch: Any, index: int) -> None:
            print("trained")

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)

    trainer = lightning.Trainer(
        accelerator="hpu", devices=1, max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Model(), [torch.zeros(1)])


for namespace in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning", "lightning_fabric"):
    for what, make in MODELS.items():
        try:
            train(namespace, make())
            print(namespace, what, "passed", sep=" | ")
        except northbridge.UnsupportedError as error:
            print(namespace, what, error, sep=" | ")
