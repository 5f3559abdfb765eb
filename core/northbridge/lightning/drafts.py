"""Drafts: what is written beside its place, and is put there when it is whole, so that a crash leaves what was there.

A draft's name begins with a dot and ends in ``.part``: nobody who looks for checkpoints takes it for one.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_SHARDS = (".metadata", "meta.pt")


def name_draft(target: Path) -> Path:
    """Return a new name beside ``target``."""
    return target.with_name(f".{target.name}.{uuid4().hex}.part")


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Yield a new file beside ``target`` that takes its place at the end, or is gone where that is not reached.

    A device or a pipe is yielded itself: it holds nothing that could be kept, and is not to be replaced by a file.
    """
    if target.exists() and not (target.is_file() or target.is_dir()):
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = name_draft(target)
    draft.touch(exist_ok=False)
    try:
        yield draft
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def put_in_place(draft: Path, target: Path) -> None:
    """Have ``draft``, a file or a folder of shards, take the place of ``target``, which is a checkpoint or nothing.

    What else lay in a folder that is replaced lies in the new one, too. A folder's place is empty for the moment
    between two renamings; the old one stands beside it then.
    """
    if draft.is_file() and not target.is_dir():
        draft.replace(target)
        return
    if target.is_symlink() or target.is_file():
        target.unlink()
    if not target.exists():
        draft.rename(target)
        return
    old = name_draft(target)
    target.rename(old)
    draft.rename(target)
    if target.is_dir():
        for file in old.iterdir():
            if file.name not in _OF_SHARDS and file.suffix != ".distcp":
                file.rename(target / file.name)
    shutil.rmtree(old)


def discard(draft: Path) -> None:
    """Remove a draft, as much of it as there is."""
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)  # what stays is no more than a draft
    else:
        draft.unlink(missing_ok=True)
