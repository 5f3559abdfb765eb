"""What a rank says if the ranks' shards cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch.distributed.checkpoint.api import CheckpointException

from northbridge.errors import CheckpointError
from northbridge.lightning.strategies.sharded import _write

FULL = "[enforce fail at inline_container.cc:881] . PytorchStreamWriter failed writing file data/0: file write failed"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (RuntimeError(FULL), "torch could not write all of it: the disk may be full"),
    ],
)
def test_full_disk_of_a_rank_is_named(reason: Exception, said: str) -> None:
    """Another rank may have failed because that one did."""

    def save(_draft: Path) -> None:
        raise CheckpointException("write", {0: (ValueError("no plan"), None), 1: (reason, None)})  # type: ignore[dict-item]

    with pytest.raises(CheckpointError) as raised:
        _write(save, Path("draft"), Path("/saved/last.ckpt"))

    assert str(raised.value).startswith(f"/saved/last.ckpt could not be written: {said}, says rank 1; an old file is")
    assert not isinstance(raised.value.__cause__, CheckpointException)  # its text is a traceback of each rank


def test_error_of_the_program_is_torchs() -> None:
    def save(_draft: Path) -> None:
        raise CheckpointException("plan", {0: (ValueError("no plan"), None)})  # type: ignore[dict-item]

    with pytest.raises(CheckpointException, match="no plan"):
        _write(save, Path("draft"), Path("last.ckpt"))
