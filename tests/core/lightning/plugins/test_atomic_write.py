"""Drafts of killed saves, which the next save removes; other processes' drafts stay."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.core.lightning.conftest import killed_while_writing

from northbridge.lightning.plugins import atomic_write
from northbridge.lightning.plugins.atomic_write import draft_of, name_draft, put_in_place, remove_left

ELSEWHERE = re.compile(r"-[0-9a-f]{12}(?=\.(part|old)$)")


def save(target: Path) -> None:
    with draft_of(target) as draft:
        draft.write_text("whole")


def on_another_machine(draft: Path, *, seconds_ago: float) -> Path:
    renamed = draft.with_name(ELSEWHERE.sub("-0123456789ab", draft.name))
    draft.rename(renamed)
    then = renamed.stat().st_mtime - seconds_ago
    for each in (renamed, *(renamed.iterdir() if renamed.is_dir() else ())):
        os.utime(each, (then, then))
    return renamed


@pytest.mark.parametrize("shards", [False, True])
def test_draft_of_a_killed_save_is_removed(tmp_path: Path, shards: bool) -> None:
    """By the next save into the folder, of any name."""
    killed_while_writing(tmp_path / "first.ckpt", shards=shards)
    killed_while_writing(tmp_path / "second.ckpt", shards=shards)

    save(tmp_path / "second.ckpt")

    assert [each.name for each in tmp_path.iterdir()] == ["second.ckpt"]


def test_draft_of_a_running_process_stays(tmp_path: Path) -> None:
    """Also of one that is stopped: it may go on."""
    child = os.fork()
    if child == 0:
        name_draft(tmp_path / "last.ckpt").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    try:
        save(tmp_path / "last.ckpt")
        assert len(list(tmp_path.glob(".last.ckpt.*.part"))) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    save(tmp_path / "last.ckpt")
    assert [each.name for each in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("shards", [False, True])
def test_draft_from_another_machine_stays_for_a_day(tmp_path: Path, shards: bool) -> None:
    young = on_another_machine(killed_while_writing(tmp_path / "a.ckpt", shards=shards), seconds_ago=80_000)
    on_another_machine(killed_while_writing(tmp_path / "b.ckpt", shards=shards), seconds_ago=90_000)

    save(tmp_path / "c.ckpt")

    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([young.name, "c.ckpt"])


@pytest.mark.parametrize("name", [".last.ckpt.part", "last.part", f".last.ckpt.{'0' * 32}.part"])
def test_files_of_the_user_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("the user's own")

    save(tmp_path / "last.ckpt")

    assert (tmp_path / name).read_text() == "the user's own"


def test_replaced_folder_stays_until_another_is_in_place(tmp_path: Path) -> None:
    """A process that is killed between two renamings leaves the former checkpoint aside, and nothing in its place."""
    target = tmp_path / "last.ckpt"
    child = os.fork()
    if child == 0:
        name_draft(target, "old").mkdir()
        os._exit(0)
    os.waitpid(child, 0)

    remove_left(tmp_path)
    assert len(list(tmp_path.glob(".last.ckpt.*.old"))) == 1
    for _ in range(2):
        draft = name_draft(target)
        draft.mkdir()
        put_in_place(draft, target)
    assert [each.name for each in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("name", ["x" * 250, "ü" * 125])
def test_name_may_be_as_long_as_a_file_name(tmp_path: Path, name: str) -> None:
    save(tmp_path / name)

    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_folder_that_cannot_be_listed_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", Mock(side_effect=PermissionError))

    save(tmp_path / "last.ckpt")

    assert (tmp_path / "last.ckpt").read_text() == "whole"


def test_a_draft_is_nobodys_where_the_system_says_no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_write, "this_machine", lambda: "")
    draft = killed_while_writing(tmp_path / "last.ckpt")

    save(tmp_path / "last.ckpt")

    assert draft.exists()
