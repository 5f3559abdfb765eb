"""Train on the handwritten digits with Fabric: a plain loop, on two simulated chips.

    .venv/bin/python examples/fabric_digits.py

It needs scikit-learn beside Northbridge and Lightning; `make setup` installs it.

The script does not import Northbridge: once that is installed, Lightning finds `accelerator="cpu_sim"` by name.
"""

from __future__ import annotations

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassAccuracy

from digits_task import build_convnet, load_sets

EPOCHS = 8


def main() -> None:
    fabric = Fabric(accelerator="cpu_sim", devices=2)
    fabric.launch()
    fabric.seed_everything(0, verbose=False)

    net = build_convnet()
    model, optimizer = fabric.setup(net, torch.optim.AdamW(net.parameters(), lr=3e-3))
    train_set, _, test_set = load_sets()
    train = fabric.setup_dataloaders(DataLoader(train_set, batch_size=32, shuffle=True))
    test = fabric.setup_dataloaders(DataLoader(test_set, batch_size=32))

    for epoch in range(EPOCHS):
        loss = torch.zeros((), device=fabric.device)
        for images, labels in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
        fabric.print(f"epoch {epoch}: loss {loss.item():.3f}")

    model.eval()
    accuracy = MulticlassAccuracy(num_classes=10, average="micro").to(fabric.device)
    with torch.no_grad():
        for images, labels in test:
            accuracy.update(model(images), labels)
    total = accuracy.compute()  # over all ranks
    fabric.print(f"accuracy on held-out digits: {total:.1%}; {fabric.world_size} ranks, this one on {fabric.device}")


if __name__ == "__main__":
    main()
