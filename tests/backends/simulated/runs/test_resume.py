"""A checkpoint of another package's goes on here, and what is saved here opens anywhere."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import clean_environment, variables
from tests.backends.simulation.runs.fixtures import Start
from tests.backends.simulation.runs.jobs import start_job

from northbridge_conformance.runs.processes import tells_of_a_launcher


class TestResume:
    """Two epochs, of which the first was another run's, equal two epochs in one go."""

    @pytest.fixture(scope="class")
    @classmethod
    def before(cls, sim: SimChip, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A folder with the checkpoints of a first epoch, and ``whole/cpu.ckpt``: two epochs in one go on the CPU."""
        folder = tmp_path_factory.mktemp("before")
        (folder / "whole").mkdir()
        clean = clean_environment(sim).items()
        environ = {name: value for name, value in clean if not tells_of_a_launcher(name)} | {"OMP_NUM_THREADS": "1"}
        for script, arguments, where in (
            ("resume.py", ["cpu", "1"], folder),
            ("resume.py", ["cpu", "2"], folder / "whole"),
            ("old_checkpoint.py", [sim.name], folder),
        ):
            job = start_job(sim.script(script), *arguments, folder=where, environ=environ, late=variables(sim))
            try:
                assert job.end() == 0, job.said
            finally:
                job.kill()
        return folder

    @pytest.mark.parametrize("checkpoint", ["old", "tagged"])
    def test_it_goes_on_as_if_never_interrupted(
        self, sim: SimChip, start: Start, tmp_path: Path, before: Path, checkpoint: str, mode: dict[str, str]
    ) -> None:
        device = {"old": "cpu", "tagged": f"{sim.name}:0"}[checkpoint]
        assert _says_of_its_tensors(before / f"{checkpoint}.ckpt", device)
        (tmp_path / f"{checkpoint}.ckpt").symlink_to(before / f"{checkpoint}.ckpt")

        job = start("resume.py", sim.name, "2", f"{checkpoint}.ckpt", **mode)

        assert job.end() == 0, job.said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python resume.py {sim.name} 2 old.ckpt", job.said)
        saved = tmp_path / f"{sim.name}.ckpt"
        assert _says_of_its_tensors(saved, "cpu")
        assert not _says_of_its_tensors(saved, f"{sim.name}:0")
        ours = torch.load(saved, weights_only=False)
        whole = torch.load(before / "whole" / "cpu.ckpt", weights_only=False)
        assert (ours["epoch"], ours["global_step"]) == (whole["epoch"], whole["global_step"]) == (2, 8)
        _assert_equal(ours["state_dict"], whole["state_dict"])
        for mine, theirs in zip(ours["optimizer_states"], whole["optimizer_states"], strict=True):
            for number, state in theirs["state"].items():
                _assert_equal(mine["state"][number], state)


def _says_of_its_tensors(checkpoint: Path, device: str) -> bool:
    """Return whether a checkpoint says that tensors of it were on ``device``."""
    with zipfile.ZipFile(checkpoint) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/data.pkl"))
        return device.encode() in archive.read(name)


def _assert_equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []
