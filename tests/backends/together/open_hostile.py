"""Open hostile files in every way that ways.json lists, and write which of them ran code: python open_hostile.py sdaa

Each folder of the working folder has a hostile file of another kind. Its code makes the folder ``ran`` where it runs.
``found.json`` gets whether it did, and what was raised and by whom, for each folder and way.
"""

import io
import json
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

import lightning.fabric
import lightning.pytorch
import lightning_fabric
import pytorch_lightning
import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.demos.boring_classes import BoringModel

import northbridge
from northbridge.cli.app import main

FILE = "model.ckpt"
QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def trainer(namespace: Any = lightning.pytorch) -> Any:
    return namespace.Trainer(accelerator=accelerator, devices=1, fast_dev_run=1, **QUIET)


def fabric(namespace: Any = lightning.fabric) -> Any:
    return namespace.Fabric(accelerator=accelerator, devices=1)


def other_model() -> Any:
    import pytorch_lightning.demos.boring_classes as demos

    return demos.BoringModel()


def strategy() -> Any:
    model, its = BoringModel(), trainer()
    model.trainer = its
    its.strategy.connect(model)
    return its.strategy


def hub(**arguments: Any) -> Any:
    url = Path(FILE).absolute().as_uri()
    return torch.hub.load_state_dict_from_url(url, model_dir="hub", progress=False, **arguments)


def command(*arguments: str) -> None:
    sys.argv = ["northbridge", *arguments]
    main()


NAMES = {
    each.__name__: each
    for each in (BoringModel, LightningDataModule, Path, command, fabric, hub, io, lightning_fabric, other_model)
} | {"FILE": FILE, "pytorch_lightning": pytorch_lightning, "strategy": strategy, "torch": torch, "trainer": trainer}
"""The file with the ways."""


def try_way(code: str) -> tuple[bool, str]:
    said = ""
    try:
        eval(code, NAMES)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, is told
        said = f"{'by torch' if was_read(error) else 'before'}: {type(error).__name__}: {error}"[:500]
    ran = os.path.isdir("ran")
    for left in ("ran", "hub"):
        shutil.rmtree(left, ignore_errors=True)
    return ran, said


def was_read(error: BaseException | None) -> bool:
    """Return whether the error, or one behind it, comes out of torch's own reader, or one in its place."""
    if error is None:
        return False
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return any(name.endswith(("/serialization.py", "/replaced/files.py")) for name in frames) or was_read(
        error.__cause__
    )


if __name__ == "__main__":
    accelerator = sys.argv[1]
    if accelerator != "cpu":
        northbridge.load(accelerator)
    ways: list[str] = json.loads(Path("ways.json").read_text())
    found = {}
    for folder in sorted(each for each in Path().iterdir() if (each / FILE).exists()):
        os.chdir(folder)
        found[folder.name] = {code: try_way(code) for code in ways}
        os.chdir("..")
    Path("found.json").write_text(json.dumps(found))
