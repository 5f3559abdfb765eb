"""Open hostile files in every way that is listed here, and write which of them ran code: python open_hostile.py sdaa

Each folder of the working folder has a hostile file of another kind. Its code makes the folder ``ran`` where it runs.
``found.json`` gets whether it did, and what was raised and by whom, for each folder and way.
"""

import io  # noqa: F401 - a way names it
import json
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

import lightning.fabric
import lightning.pytorch
import lightning_fabric  # noqa: F401
import pytorch_lightning.demos.boring_classes
import torch
from lightning.pytorch import LightningDataModule  # noqa: F401
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
    return pytorch_lightning.demos.boring_classes.BoringModel()


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


ALLOWED = ("torch.load(FILE, weights_only=False)", "strategy().checkpoint_io.load_checkpoint(FILE, weights_only=False)")
"""Where the user allows code, it runs: the files are as hostile as they say."""

WEIGHTS_ONLY = (
    "torch.load(FILE, weights_only=True)",
    "torch.load(Path(FILE), map_location='cpu', weights_only=True)",
    "torch.load(f=FILE, map_location=lambda storage, place: storage, weights_only=True)",
    "torch.load(open(FILE, 'rb'), weights_only=True)",
    "torch.load(io.BytesIO(Path(FILE).read_bytes()), weights_only=True)",
    "torch.load(FILE, mmap=True, weights_only=True)",
    "torch.serialization.load(FILE, weights_only=True)",
    "hub(weights_only=True)",
    "trainer().fit(BoringModel(), ckpt_path=FILE, weights_only=True)",
    "trainer().validate(BoringModel(), ckpt_path=FILE, weights_only=True)",
    "trainer().test(BoringModel(), ckpt_path=FILE, weights_only=True)",
    "trainer().predict(BoringModel(), ckpt_path=FILE, weights_only=True)",
    "trainer(pytorch_lightning).fit(other_model(), ckpt_path=FILE, weights_only=True)",
    "BoringModel.load_from_checkpoint(FILE, weights_only=True)",
    "LightningDataModule.load_from_checkpoint(FILE, weights_only=True)",
    "strategy().load_checkpoint(FILE, weights_only=True)",
    "strategy().checkpoint_io.load_checkpoint(FILE, weights_only=True)",
    "fabric().load(FILE, weights_only=True)",
    "fabric(lightning_fabric).load(FILE, {'model': torch.nn.Linear(2, 2)}, weights_only=True)",
)
NOTHING_SAID = (
    "trainer().fit(BoringModel(), ckpt_path=FILE)",
    "type(other_model()).load_from_checkpoint(FILE)",
    "fabric().load(FILE)",
    "fabric().load_raw(FILE, torch.nn.Linear(2, 2))",
)
COMMANDS = (
    "command('list', '--no-probe')",
    "command('hang', '.')",
    "command('compare', FILE, FILE)",
    "command('conformance', '--verify', FILE)",
)


def try_way(code: str) -> tuple[bool, str]:
    said = ""
    try:
        eval(code, globals())
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
    found = {}
    for folder in sorted(each for each in Path().iterdir() if (each / FILE).exists()):
        os.chdir(folder)
        found[folder.name] = {code: try_way(code) for code in (*ALLOWED, *WEIGHTS_ONLY, *NOTHING_SAID, *COMMANDS)}
        os.chdir("..")
    Path("found.json").write_text(json.dumps(found))
