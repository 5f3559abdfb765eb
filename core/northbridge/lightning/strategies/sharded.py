"""Base of the strategies that shard a model: checkpoints that every rank writes, or rank 0 alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from northbridge.errors import CheckpointError
from northbridge.lightning.plugins.checkpoint_files import unreadable
from northbridge.lightning.plugins.checkpoint_io import system_error_behind, to_cpu, unwritable, writing
from northbridge.lightning.strategies.hosts import _FabricMixin, _TrainerMixin
from northbridge.lightning.strategies.parallel import _ParallelMixin
from northbridge.lightning.strategies.unsupported import reject_unsupported

if TYPE_CHECKING:
    import torch

_NODES_SEE_EACH_OTHER_SECONDS = 60.0  # NFS caches a folder's contents for this long by default


class _ShardedMixin(_ParallelMixin):
    """Trains a model that is sharded over several devices of a chip, one process each."""

    @property
    def _writes_shards(self) -> bool:
        """True if every rank writes its shards into a folder; False if rank 0 writes the whole into a file."""
        raise NotImplementedError

    def _save_draft(self, path: Any, save: Callable[[Path], None]) -> None:
        """Let all ranks write a draft, which replaces ``path`` when each of them has finished."""
        target = self.broadcast(Path(path))
        if not self._writes_shards and target.is_dir() and not (target / "meta.pt").exists():
            raise unwritable(target, IsADirectoryError(f"{target} is a folder"))
        if not self._writes_shards and self.namespace.is_trainer and not target.is_dir():
            self._on_every_rank(target, partial(save, target))  # by the CheckpointIO, which writes its own drafts
            return
        self._replace_together(target, partial(self._write_draft, save, target))

    def _write_draft(self, save: Callable[[Path], None], target: Path, draft: Path) -> None:
        _write(save, draft, target)
        if self._writes_shards and self.node_rank > 0:
            _wait_for(draft / ".metadata", target)

    @contextmanager
    def reading(self, path: Any) -> Iterator[None]:
        """Turn errors of reading ``path`` inside the ``with`` into :class:`CheckpointError`; it may have shards."""
        from torch.distributed.checkpoint.api import CheckpointException

        try:
            with super().reading(path):
                yield
        except CheckpointException as error:
            reason, _ = next(iter(error.failures.values()))
            raise unreadable(path, reason) from error


class _TrainerShardsMixin(_TrainerMixin):
    """Saves and restores a Trainer's model, of which every rank has a shard."""

    # Skips the methods of strategies with a whole model on each rank: here every rank writes its shards.

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        """Let every rank save its shards of ``checkpoint``, or rank 0 all of it."""
        reject_unsupported(self.backend, "checkpoint")
        whole = to_cpu(self.with_random_states(checkpoint))
        save = self.stock_class.save_checkpoint
        self._save_draft(filepath, lambda path: save(self, whole, path, storage_options))

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Read the checkpoint, and keep its random states for a fit."""
        checkpoint = super().load_checkpoint(*args, **kwargs)
        if self._fits():
            self.note_random_states(checkpoint)  # this strategy's optimizers are restored by now
        return checkpoint


class _TrainerShardedMixin(_TrainerShardsMixin, _ShardedMixin):
    """Trains a Trainer's model that is sharded over several devices."""


class _FabricShardedMixin(_FabricMixin, _ShardedMixin):
    """Saves and restores a Fabric's model that is sharded over several devices."""

    @property
    def checkpoint_io(self) -> Any:
        """Lightning's property, which raises an error: this strategy has no checkpoint plugin."""
        return self.stock_class.checkpoint_io.fget(self)

    @checkpoint_io.setter
    def checkpoint_io(self, io: Any) -> None:
        self.stock_class.checkpoint_io.fset(self, io)

    def module_to_device(self, module: torch.nn.Module) -> None:
        """Leave ``module`` where it is: set-up moves its shards to the chip."""

    def save_checkpoint(
        self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
    ) -> None:
        """Let every rank save its shards of ``state``, or rank 0 all of it."""
        reject_unsupported(self.backend, "checkpoint")
        beside = {key: _saved(each) for key, each in state.items() if not _is_spread(each)}
        whole, save = {**state, **to_cpu(beside)}, self.stock_class.save_checkpoint
        self._save_draft(path, lambda path: save(self, path, whole, storage_options, filter))


def _is_spread(value: Any) -> bool:
    # Lightning gets the states of modules and optimizers itself, from all ranks together.
    import torch

    return isinstance(value, (torch.nn.Module, torch.optim.Optimizer))


def _saved(value: Any) -> Any:
    is_stateful = hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
    return value.state_dict() if is_stateful else value


def _write(save: Callable[[Path], None], draft: Path, target: Path) -> None:
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with writing(target):
            save(draft)
    except CheckpointException as error:  # torch raises it on every rank, even if only one failed
        causes = ((rank, system_error_behind(reason)) for rank, (reason, _) in error.failures.items())
        rank, cause = next(((rank, cause) for rank, cause in causes if cause is not None), (0, None))
        if cause is None:
            raise
        # Not from torch's error: its text has the traceback of each rank.
        raise unwritable(target, OSError(f"{cause.strerror or cause}, says rank {rank}")) from cause


def _wait_for(metadata: Path, target: Path) -> None:
    # A node may see another node's files only later.
    deadline = time.monotonic() + _NODES_SEE_EACH_OTHER_SECONDS
    while not metadata.exists():
        if time.monotonic() > deadline:
            raise CheckpointError(
                f"rank 0 wrote into {target.parent}, which this node does not see. Fix: use a folder that"
                " all nodes share"
            )
        time.sleep(0.1)
