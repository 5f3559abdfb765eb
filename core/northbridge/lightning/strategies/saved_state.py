"""Checkpoints of every strategy: tensors on the CPU, one error on all ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from northbridge.errors import CheckpointError
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins.atomic_write import discard, name_draft, put_in_place, remove_left
from northbridge.lightning.plugins.checkpoint_files import reading
from northbridge.lightning.plugins.checkpoint_io import stock_format


class _SavedStateMixin(_NamespaceMixin):
    """Writes and reads checkpoints that open on any chip, or without one."""

    _checkpoint_io: Any

    @property
    def checkpoint_io(self) -> Any:
        """The user's checkpoint plugin, or ours."""
        if self._checkpoint_io is None:
            self._checkpoint_io = self.siblings.checkpoint_io()
        elif hasattr(self._checkpoint_io, "checkpoint_io"):
            self._checkpoint_io.checkpoint_io = self.siblings.checkpoint_io()  # a wrapper; a plugin in it stays
        return super().checkpoint_io

    @checkpoint_io.setter
    def checkpoint_io(self, io: Any) -> None:
        self._checkpoint_io = io

    @property
    def _ranks(self) -> int:
        """The number of ranks; a single-device strategy does not have the attribute."""
        return int(getattr(self, "world_size", 1))

    def _is_alone(self) -> bool:
        """Return True if no other rank saves with this process, which may also be the parent of spawned ranks."""
        import torch.distributed

        return self._ranks == 1 or not torch.distributed.is_initialized()

    def reading(self, path: Any) -> AbstractContextManager[None]:
        """Turn errors of reading ``path`` inside the ``with`` into CheckpointError; one rank compares checksums."""
        return reading(path, check=self.is_global_zero or os.path.isdir(str(path)))

    def _on_rank_zero(self, path: Any, save: Callable[[], None]) -> None:
        """Let rank 0 save. If that fails, raise on every rank, so that no rank waits for one that left."""
        self._on_every_rank(path, save if self.is_global_zero else lambda: None)

    def _on_every_rank(self, path: Any, save: Callable[[], None]) -> None:
        """Save; if that fails on any rank, raise on all of them."""
        import torch.distributed

        failure: Exception | None = None
        try:
            with stock_format():
                save()
        except Exception as error:
            if self._is_alone():
                raise
            failure = error
        if self._is_alone() or not self.reduce_boolean_decision(failure is not None, all=False):
            return
        reasons = [""] * self._ranks
        torch.distributed.all_gather_object(reasons, f"{type(failure).__name__}: {failure}" if failure else "")
        if failure is not None:
            raise failure
        rank, reason = next((rank, reason) for rank, reason in enumerate(reasons) if reason)
        raise CheckpointError(f"rank {rank} could not write {path}, so all ranks stop: {reason}")

    def _save_draft(self, path: Any, save: Callable[[Path], None]) -> None:
        """Let all ranks write their shards into a draft, which replaces ``path``."""
        self._replace_together(path, save)

    def _replace_together(self, path: Any, save: Callable[[Path], None]) -> None:
        """Let all ranks write a draft, which replaces ``path`` when each of them has finished."""
        target, draft = self.broadcast((Path(path), name_draft(Path(path))))
        if self.is_global_zero:
            remove_left(target.parent)
        try:
            self._on_every_rank(target, partial(save, draft))
            self._on_rank_zero(target, partial(put_in_place, draft, target))
        except BaseException:
            if self.is_global_zero:
                discard(draft)
            raise
