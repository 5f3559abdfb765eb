"""A process that hangs says where, and one that cannot say is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from northbridge.conformance.proof.hanging import collect_stacks

HANGS = """
import sys
import time
from pathlib import Path

from northbridge.conformance.proof.hanging import dump_stacks_when_asked

dump_stacks_when_asked(Path(sys.argv[1]))


def wait_for_the_others():
    Path(sys.argv[1], "ready").touch()
    time.sleep(600)


wait_for_the_others()
"""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that hangs as rank 3, with a child that knows nothing of this."""
    command = [sys.executable, "-c", HANGS, str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "RANK": "3"}, start_new_session=True) as process:
        try:
            until = time.monotonic() + 60
            while not (tmp_path / "ready").exists():
                assert time.monotonic() < until
                assert process.poll() is None
                time.sleep(0.05)
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_the_stack_of_each_rank_is_told(hanging: subprocess.Popen[bytes], tmp_path: Path) -> None:
    said = collect_stacks(hanging.pid, tmp_path)

    assert said.startswith(f"rank 3 (process {hanging.pid}):\n")
    assert "in wait_for_the_others" in said
    assert hanging.poll() is None


def test_a_process_without_a_handler_is_not_asked(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            assert collect_stacks(process.pid, tmp_path) == ""
            assert process.poll() is None  # the signal would have ended it
        finally:
            process.kill()
