"""The files that a killed save leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from northbridge.lightning.plugins.atomic_write import name_draft


def killed_while_writing(target: Path, *, shards: bool = False) -> Path:
    """Return the draft of a process that was killed while it wrote."""
    child = os.fork()
    if child == 0:
        draft = name_draft(target)
        if shards:
            draft.mkdir()
            draft = draft / "__0_0.distcp"
        draft.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (draft,) = (each for each in target.parent.glob(f".{target.name}*.part") if f".{child}-" in each.name)
    return draft
