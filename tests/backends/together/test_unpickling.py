"""No code of a file runs where weights alone are allowed, nor by a command, whatever a vendor's import replaces.

27 ways to open a file, four kinds of hostile file, and the CPU beside three chips, Gaudi in lazy mode, whose import
replaces what reads files. Where nothing is said, a chip is as the CPU, of which Lightning and torch decide.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.backends.together.environment import ACCELERATORS, environment_on
from tests.backends.together.open_hostile import ALLOWED, FILE, NOTHING_SAID, WEIGHTS_ONLY
from tests.scripts import run_forked

SCRIPT = Path(__file__).with_name("open_hostile.py")

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
    return {accelerator: open_all(tmp_path_factory.mktemp(accelerator), accelerator) for accelerator in ACCELERATORS}


def open_all(folder: Path, accelerator: str) -> Found:
    for kind, write in HOSTILE.items():
        (folder / kind).mkdir()
        write(folder / kind / FILE)
    environ = {**environment_on(accelerator, folder), "PT_HPU_LAZY_MODE": "1"}
    done = run_forked(SCRIPT, accelerator, folder=folder, environ=environ)
    assert done.status == 0, done.said
    found: Found = json.loads((folder / "found.json").read_text())
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_code_runs(kind: str, accelerator: str, found: dict[str, Found]) -> None:
    """Look for what the code of a hostile file would have made, and that the file was read at all."""
    ways, cpus = found[accelerator][kind], found["cpu"][kind]

    assert all(ways[way][0] for way in ALLOWED), "the file is not hostile"
    as_on_the_cpu = {way for way in NOTHING_SAID if cpus[way][0]}
    assert [way for way, (ran, _) in ways.items() if ran and way not in {*ALLOWED, *as_on_the_cpu}] == []
    unread = {way: ways[way][1] for way in (*WEIGHTS_ONLY, *NOTHING_SAID) if not ways[way][1].startswith("by torch: ")}
    assert unread == {}
