"""Drafts: written beside the target and renamed when complete, so that a crash leaves the old file.

A draft's name begins with a dot and ends in ``.part``, so that no search for checkpoints finds it. It names the owning
process, so that the next save removes the draft of a killed process.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from northbridge.processes.endings import started_at, state_of, this_machine

_OF_SHARDS = (".metadata", "meta.pt")
_LONGEST = 255  # bytes, of a file's name
_UNKNOWN_SECONDS = 86400.0
"""A draft from another machine counts as abandoned after this time without a change."""

_NAME = re.compile(
    r"\..*\.[0-9a-f]{32}\.(?P<process>\d+)-(?P<ticks>\d+)-(?P<machine>[0-9a-f]{12})\.(?P<ending>part|old)"
)


def name_draft(target: Path, ending: str = "part") -> Path:
    """Return a new name beside ``target``; it names the owning process and its machine."""
    process = os.getpid()
    owner = f"{process}-{started_at(process) or 0}-{_digest_machine()}"
    tail = f".{uuid4().hex}.{owner}.{ending}"
    name = f".{target.name}".encode(errors="surrogateescape")[: _LONGEST - len(tail)]
    return target.with_name(name.decode(errors="ignore") + tail)


def remove_left(folder: Path, ending: str = "part") -> None:
    """Remove the drafts in ``folder`` whose processes are gone."""
    with suppress(OSError):  # the folder cannot be read, or does not exist
        for draft in folder.iterdir():
            name = _NAME.fullmatch(draft.name)
            if name is not None and name["ending"] == ending and _is_left(draft, name):
                discard(draft)


def _is_left(draft: Path, name: re.Match[str]) -> bool:
    machine = this_machine() if name["machine"] == _digest_machine() else ""
    state = state_of(int(name["process"]), int(name["ticks"]), machine)
    return state == "gone" or (state == "unknown" and _seconds_untouched(draft) > _UNKNOWN_SECONDS)


def _seconds_untouched(draft: Path) -> float:
    # By the file system's clock: machines that share the file system may disagree about the time.
    now = draft.with_name(f".{uuid4().hex}")
    now.touch(exist_ok=False)
    try:
        parts = [draft, *(draft.iterdir() if draft.is_dir() else ())]
        last: float = max(each.lstat().st_mtime for each in parts)
        return now.stat().st_mtime - last
    finally:
        now.unlink()


def _digest_machine() -> str:
    return hashlib.sha256(this_machine().encode()).hexdigest()[:12]


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Yield a new file beside ``target`` that replaces it at the end, and is removed on an error.

    Drafts of killed processes are removed first. A device or a pipe is yielded itself: it has no old content to keep,
    and a file must not replace it.
    """
    if target.exists() and not (target.is_file() or target.is_dir()):
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_left(target.parent)
    draft = name_draft(target)
    draft.touch(exist_ok=False)
    try:
        yield draft
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def put_in_place(draft: Path, target: Path) -> None:
    """Replace ``target``, a checkpoint or nothing, by ``draft``, a file or a folder of shards.

    Other files of a replaced folder are moved to the new one. Between two renamings a folder's path is empty for a
    moment, and the old folder is beside it.
    """
    if draft.is_file() and not target.is_dir():
        draft.replace(target)
        return
    if target.is_symlink() or target.is_file():
        target.unlink()
    if not target.exists():
        draft.rename(target)
        return
    old = name_draft(target, "old")  # complete: it is removed only after the new one is in place
    target.rename(old)
    draft.rename(target)
    if target.is_dir():
        for file in old.iterdir():
            is_shard = file.name in _OF_SHARDS or file.suffix == ".distcp"
            if not is_shard and not (target / file.name).exists():
                file.rename(target / file.name)
    shutil.rmtree(old)
    remove_left(target.parent, "old")


def discard(draft: Path) -> None:
    """Remove a draft, or as much of it as exists."""
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)  # leftovers are still only a draft
    else:
        draft.unlink(missing_ok=True)
