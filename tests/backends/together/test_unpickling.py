"""No code of a file runs where weights alone are allowed, nor by a command, whatever a vendor's import replaces.

28 ways to open a file, four kinds of hostile file, and the CPU beside three chips, Gaudi in lazy mode, whose import
replaces what reads files. Where nothing is said, a chip is as the CPU, of which Lightning and torch decide.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.backends.together.conftest import ACCELERATORS, environment_on
from tests.scripts import run_forked

SCRIPT = Path(__file__).with_name("open_hostile.py")

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
DOCTOR = "northbridge doctor hpu"
"""A process of its own, and one for all accelerators: it is slow, and Gaudi's import replaces the most."""

WAYS = (*WEIGHTS_ONLY, *NOTHING_SAID, *COMMANDS, DOCTOR)

Found = dict[str, dict[str, tuple[bool, str]]]


class RunsCode:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("ran",)


def write_tar(file: Path) -> None:
    with tarfile.open(file, "w") as tar:
        for name in ("storages", "tensors", "pickle"):
            member = tarfile.TarInfo(name)
            content = pickle.dumps(RunsCode())
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def checkpoint() -> dict[str, object]:
    return {"state_dict": {"weight": torch.ones(2)}, "hyper_parameters": {"more": [RunsCode()]}}


HOSTILE: dict[str, Callable[[Path], object]] = {
    "archive": lambda file: torch.save(checkpoint(), file),
    "former format": lambda file: torch.save(checkpoint(), file, _use_new_zipfile_serialization=False),
    "bare pickle": lambda file: file.write_bytes(pickle.dumps(RunsCode())),
    "tar": write_tar,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """Return for each accelerator, file and way if code ran, and the error."""
    doctor = stand_by(tmp_path_factory.mktemp("doctor"))
    found = {}
    for accelerator in ACCELERATORS:
        found[accelerator] = open_all(tmp_path_factory.mktemp(accelerator), accelerator)
        for kind in HOSTILE:
            assert all(found[accelerator][kind][way][0] for way in ALLOWED), "the file is not hostile"
            found[accelerator][kind][DOCTOR] = doctor
    return found


def open_all(folder: Path, accelerator: str) -> Found:
    for kind, write in HOSTILE.items():
        (folder / kind).mkdir()
        write(folder / kind / "model.ckpt")
    (folder / "ways.json").write_text(json.dumps([*ALLOWED, *WAYS[:-1]]))
    done = run_forked(SCRIPT, accelerator, folder=folder, environ=lazy_environment_on(accelerator, folder))
    assert done.status == 0, done.said
    found: Found = json.loads((folder / "found.json").read_text())
    return found


def stand_by(folder: Path) -> tuple[bool, str]:
    for (kind, write), name in zip(HOSTILE.items(), ("model.ckpt", "report.json", "torch.pt", "data.pkl"), strict=True):
        write(folder / name)
        assert (folder / name).exists(), kind
    done = subprocess.run(
        [Path(sys.executable).with_name("northbridge"), *DOCTOR.split()[1:]],
        cwd=folder,
        env=lazy_environment_on("hpu", folder),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert "hpu" in done.stdout, done.stderr
    return (folder / "ran").exists(), done.stdout


def lazy_environment_on(accelerator: str, folder: Path) -> dict[str, str]:
    return {**environment_on(accelerator, folder), "PT_HPU_LAZY_MODE": "1"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("way", WAYS)
def test_no_code_runs(way: str, kind: str, accelerator: str, found: dict[str, Found]) -> None:
    """Look for what the code of a hostile file would have made, and that the file was read at all."""
    ran, said = found[accelerator][kind][way]

    assert not ran or (way in NOTHING_SAID and found["cpu"][kind][way][0])
    assert way in (*COMMANDS, DOCTOR) or said.startswith("by torch: "), said
