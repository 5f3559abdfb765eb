"""A vendor's command: what it prints, and each way in which it can fail to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import northbridge

Tool = Callable[[str], None]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Install the command `acme-smi`, a shell script, for this process."""

    def install(script: str) -> None:
        file = tmp_path / "acme-smi"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


def ask(*arguments: str, limit_s: float = 10.0) -> str | None:
    return northbridge.run_tool("acme-smi", *arguments, backend="acme", limit_s=limit_s)


def refusal(limit_s: float = 10.0) -> str:
    with pytest.raises(northbridge.DetectionError) as caught:
        ask("-q", limit_s=limit_s)
    assert caught.value.backend == "acme"
    return str(caught.value)


def test_what_it_prints_is_returned_in_the_language_of_programs(tool: Tool) -> None:
    tool('echo "$1 $LC_ALL"; echo warned >&2')

    assert ask("-q") == "-q C\nwarned\n"


def test_one_that_is_not_installed_is_not_an_error() -> None:
    assert ask() is None


def test_one_that_fails_is_told_with_its_last_words(tool: Tool) -> None:
    tool("echo starting; echo no driver >&2; exit 3")

    assert refusal() == ("`acme-smi -q` ended with exit code 3 (no driver). Fix: check the driver and your permissions")


def test_one_that_says_nothing_and_fails_is_told_all_the_same(tool: Tool) -> None:
    tool("kill -9 $$")

    assert refusal().startswith("`acme-smi -q` was killed by SIGKILL (no output).")


def test_one_that_hangs_is_ended_with_what_it_has_started(tool: Tool) -> None:
    tool("sleep 100 & echo waiting; wait")

    started = time.monotonic()
    assert refusal(limit_s=0.5) == "`acme-smi -q` took longer than 0.5 s. Fix: check the driver"
    assert time.monotonic() - started < 50


def test_a_process_that_it_leaves_behind_holds_nobody_up(tool: Tool) -> None:
    tool("sleep 100 & echo done")

    started = time.monotonic()
    assert ask() == "done\n"
    assert time.monotonic() - started < 50


def test_one_that_is_not_a_program_of_this_machine_is_told(tool: Tool, tmp_path: Path) -> None:
    tool("")
    (tmp_path / "acme-smi").write_bytes(b"\x7fELF nonsense")

    assert refusal().startswith("`acme-smi -q` could not be started: [Errno 8] Exec format error")


def test_what_is_not_text_is_read_as_far_as_it_goes(tool: Tool) -> None:
    tool("printf 'card \\377'")

    assert ask() == "card \ufffd"
