"""Train models a few steps on one device and then on two: ``python train.py ACCELERATOR FOLDER MODEL …``.

Each training writes its losses and weights to ``FOLDER``, or the error that refused it.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.zoo.models import Entry

STEPS, ROWS = 4, 16


def main(accelerator: str, folder: Path, names: list[str]) -> None:
    """Train with one device, then with two; a rank that Lightning has started does only the latter."""
    import torch
    from tests.zoo.models import ZOO, declare_torchvision

    zoo = {name: ZOO[name] for name in names}
    if any("timm" in each.packages for each in zoo.values()):
        declare_torchvision()
    for package in {package: None for each in zoo.values() for package in each.packages}:
        import_module(package)  # before there is a Trainer, as scripts do
    torch.set_num_threads(1)
    for devices in (2,) if "LOCAL_RANK" in os.environ else (1, 2):
        for name in zoo:
            rank, found = _train(zoo[name], accelerator, devices)
            torch.save(found, folder / f"{name}-{devices}-{rank}.pt")


def _train(zoo: Entry, accelerator: str, devices: int) -> tuple[int, dict[str, object]]:
    import torch
    from lightning.pytorch import Trainer
    from torch.utils.data import DataLoader

    import northbridge

    generator = torch.Generator().manual_seed(3)
    rows: Any = [zoo.row(generator) for _ in range(ROWS)]
    torch.manual_seed(5)
    model = zoo.make()
    trainer = Trainer(
        accelerator=accelerator,
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        max_steps=STEPS,
        gradient_clip_val=zoo.clip,
        precision=zoo.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    try:
        trainer.fit(model, DataLoader(rows, batch_size=2))
    except northbridge.UnsupportedError as error:
        return trainer.global_rank, {"refused": str(error)}
    weights = {name: value.cpu() for name, value in model.state_dict().items()}
    return trainer.global_rank, {"losses": torch.stack(model.losses).cpu(), "weights": weights}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
