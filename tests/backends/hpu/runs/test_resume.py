"""A checkpoint of lightning-Habana's goes on here, and what is saved here opens anywhere."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch
from tests.backends.hpu.runs.conftest import Start
from tests.backends.hpu.runs.jobs import start_job
from tests.backends.hpu.runs.page import assert_shown

from northbridge.conformance.scenario import tells_of_a_launcher

MODES = pytest.mark.parametrize("mode", ["0", "1"], ids=["eager", "lazy"])


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checkpoints of a first epoch, and ``whole/cpu.ckpt``: two epochs in one go on the CPU."""
    folder = tmp_path_factory.mktemp("before")
    (folder / "whole").mkdir()
    environ = {name: value for name, value in os.environ.items() if not tells_of_a_launcher(name)}
    environ |= {"NORTHBRIDGE_SIMULATE": "hpu", "OMP_NUM_THREADS": "1", "PT_HPU_LAZY_MODE": "0"}
    for script, arguments, where in (
        ("resume.py", ["cpu", "1"], folder),
        ("resume.py", ["cpu", "2"], folder / "whole"),
        ("old_checkpoint.py", [], folder),
    ):
        job = start_job(script, *arguments, folder=where, environ=environ)
        try:
            assert job.end() == 0, job.said
        finally:
            job.kill()
    return folder


def tags(file: Path) -> set[str]:
    """Return the devices that a checkpoint says its tensors were on."""
    with zipfile.ZipFile(file) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/data.pkl"))
        pickled = archive.read(name)
    return {device for device in ("cpu", "hpu:0") if device.encode() in pickled}


@MODES
@pytest.mark.parametrize(("checkpoint", "tag"), [("old.ckpt", "cpu"), ("tagged.ckpt", "hpu:0")])
def test_it_goes_on_as_if_never_interrupted(
    start: Start, tmp_path: Path, before: Path, checkpoint: str, tag: str, mode: str
) -> None:
    assert tag in tags(before / checkpoint)
    (tmp_path / checkpoint).symlink_to(before / checkpoint)

    job = start("resume.py", "hpu", "2", checkpoint, PT_HPU_LAZY_MODE=mode)

    assert job.end() == 0, job.said
    assert_shown("NORTHBRIDGE_SIMULATE=hpu python resume.py hpu 2 old.ckpt", job.said)
    assert tags(tmp_path / "hpu.ckpt") == {"cpu"}
    ours = torch.load(tmp_path / "hpu.ckpt", weights_only=False)
    whole = torch.load(before / "whole" / "cpu.ckpt", weights_only=False)
    assert (ours["epoch"], ours["global_step"]) == (whole["epoch"], whole["global_step"]) == (2, 8)
    assert_equal(ours["state_dict"], whole["state_dict"])
    for mine, theirs in zip(ours["optimizer_states"], whole["optimizer_states"], strict=True):
        for number, state in theirs["state"].items():
            assert_equal(mine["state"][number], state)


def assert_equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []
