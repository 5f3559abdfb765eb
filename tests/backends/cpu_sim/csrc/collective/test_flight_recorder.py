"""The flight recorder over simccl: what DDP calls in C++, and what Lightning's Trainer starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from northbridge.flight_recorder.analysis.findings import HangFinding
from northbridge.flight_recorder.analysis.judgement import judge
from northbridge.flight_recorder.analysis.record_files import FolderError, read_folder

PROGRAMS = Path(__file__).with_name("failing_programs.py")
LIMIT_S = 120.0
TRAIN = """
import os, time
from pathlib import Path
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

class Model(BoringModel):
    def training_step(self, batch, index):
        while self.global_rank == 1 and index == 2:
            time.sleep(60)
        return super().training_step(batch, index)

if __name__ == "__main__":
    trainer = Trainer(accelerator="cpu_sim", devices=2, max_epochs=1, logger=False, enable_checkpointing=False,
                      enable_progress_bar=False)
    trainer.fit(Model())
"""


def line_of(path: Path, text: str) -> int:
    return 1 + next(number for number, line in enumerate(path.read_text().splitlines()) if text in line)


@pytest.mark.parametrize("threads", ["0", "1"], ids=["backward in the caller's thread", "backward in a thread of C++"])
def test_a_backward_left_out_is_named(on_ranks: Callable[..., list[str]], tmp_path: Path, threads: str) -> None:
    folder = tmp_path / "flight"
    environ = {"NORTHBRIDGE_FLIGHT_RECORDER": str(folder), "NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS": threads}
    on_ranks("one_leaves_out_a_backward", size=3, programs=PROGRAMS, environ=environ)

    (finding,) = judge(read_folder(folder), time.time()).findings

    assert (finding.kind, finding.operation) == ("not called", "all_reduce")
    assert (finding.blamed, finding.waiting) == ((2,), (0, 1))
    assert "all_reduce (float32 [4]), for which ranks 0, 1 waited" in finding.text
    line = line_of(PROGRAMS, "        loss.backward()")
    in_thread = " (from autograd's thread; the main thread was there)" if threads == "1" else ""
    assert f"failing_programs.py:{line} in one_leaves_out_a_backward{in_thread}, until it failed" in finding.text


def test_rank_that_sleeps_in_its_step_is_named(tmp_path: Path) -> None:
    script, folder = tmp_path / "train.py", tmp_path / "flight"
    script.write_text(TRAIN)
    environ = {**os.environ, "NORTHBRIDGE_FLIGHT_RECORDER": str(folder), "OMP_NUM_THREADS": "1"}
    with (tmp_path / "printed.txt").open("wb") as printed:
        trainer = subprocess.Popen(
            [sys.executable, str(script)], env=environ, stdout=printed, stderr=printed, start_new_session=True
        )
    try:
        finding = _wait_for_finding(folder, trainer, tmp_path / "printed.txt")
    finally:
        os.killpg(trainer.pid, signal.SIGKILL)
        trainer.wait()

    assert (finding.operation, finding.blamed, finding.waiting) == ("all_reduce", (1,), (0,))
    assert f"train.py:{line_of(script, 'trainer.fit')} in <module>" in finding.text


def _wait_for_finding(folder: Path, trainer: subprocess.Popen[bytes], printed: Path) -> HangFinding:
    # One rank waits for the other for moments all the time: what is meant lasts.
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        assert trainer.poll() is None, printed.read_text()
        try:
            findings = judge(read_folder(folder), time.time()).findings
        except FolderError:
            findings = ()
        for finding in findings:
            waited_s = time.time() - (finding.since or time.time())
            if (finding.operation, finding.blamed) == ("all_reduce", (1,)) and waited_s > 3.0:
                return finding
        time.sleep(0.2)
    raise AssertionError(printed.read_text())
