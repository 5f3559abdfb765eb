"""What every strategy does about checkpoints: tensors on the CPU, random states beside them, one error on all ranks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from northbridge.errors import CheckpointError
from northbridge.lightning.plugins import random_states
from northbridge.lightning.plugins.checkpoint_files import reading, refuse_other_parts, refuse_other_than_dict
from northbridge.lightning.plugins.checkpoint_io import stock_format, to_cpu
from northbridge.lightning.strategies.unsupported import refuse_denied, refuse_resume
from northbridge.process_record import logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from northbridge.lightning.namespaces import Namespace


def make_saving_strategy(namespace: Namespace, stock: Any, checkpoint_io: Any) -> Any:
    """Return a subclass of Lightning's strategy ``stock`` whose checkpoints open on any chip, or none."""

    class SavingStrategy(stock):  # type: ignore[misc]  # Lightning's class of this namespace, known at run time
        _checkpoint_io: Any
        _random_states: dict[str, Any] | None = None  # of the checkpoint that the fit takes up

        @property
        def checkpoint_io(self) -> Any:
            if self._checkpoint_io is None:
                self._checkpoint_io = checkpoint_io()
            elif hasattr(self._checkpoint_io, "checkpoint_io"):
                self._checkpoint_io.checkpoint_io = checkpoint_io()  # it wraps another, and keeps one that it has
            return super().checkpoint_io

        @checkpoint_io.setter
        def checkpoint_io(self, io: Any) -> None:
            self._checkpoint_io = io

        @property
        def _ranks(self) -> int:
            return int(getattr(self, "world_size", 1))  # a strategy of one device has none

        # A fit that takes up a checkpoint draws what the saved run would have drawn.

        def load_optimizer_state_dict(self, checkpoint: Any) -> None:
            super().load_optimizer_state_dict(checkpoint)
            self.note_random_states(checkpoint)

        def note_random_states(self, checkpoint: Any) -> None:
            """Keep this rank's random states of the checkpoint that a fit takes up."""
            everybodys, ranks = random_states.of_checkpoint(checkpoint), self._ranks
            if everybodys is None:
                return
            if len(everybodys) == ranks:
                self._random_states = everybodys[self.global_rank]
            elif self.is_global_zero:
                logger.warning(
                    "the checkpoint was written by %d ranks, and this run has %d: random numbers begin with the seed",
                    len(everybodys),
                    ranks,
                )

        def restore_random_states(self) -> None:
            """Put back the random states of the checkpoint; called when the loaders are there, before they shuffle."""
            if self._random_states is not None:
                random_states.restore(namespace, self._random_states)

        def on_train_start(self) -> None:
            super().on_train_start()
            batches = self.lightning_module.trainer.fit_loop.epoch_loop.batch_progress
            if batches.current.ready > 0 and not batches.is_last_batch:
                self.restore_random_states()  # once more: the loaders have shuffled for an epoch that had begun before
            self._random_states = None

        def teardown(self) -> None:
            super().teardown()
            self._random_states = None  # a fit that had nothing left to do has taken up nothing

        def _is_alone(self) -> bool:
            # So is one of several ranks that saves because of an error, and the process that has spawned them.
            import torch.distributed

            if self._ranks == 1 or not torch.distributed.is_initialized():
                return True
            return bool(namespace.is_trainer and self.lightning_module.trainer.interrupted and not self.ranks_end)

        def with_random_states(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
            """Return ``checkpoint`` with the random states of every rank, unless it holds weights alone.

            Nor has one of several ranks that is written because of an error: this rank may be alone with it.
            """
            if (self._ranks > 1 and self._is_alone()) or "optimizer_states" not in checkpoint:
                return checkpoint
            return random_states.add(checkpoint, random_states.gather(namespace, self._ranks))  # by all ranks

        def _save_trainer(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
            refuse_denied(self.backend, "checkpoint")
            checkpoint = self.with_random_states(checkpoint)
            self._on_rank_zero(
                filepath,
                lambda: super(SavingStrategy, self).save_checkpoint(
                    to_cpu(checkpoint), filepath, storage_options=storage_options
                ),
            )

        def _save_fabric(
            self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
        ) -> None:
            refuse_denied(self.backend, "checkpoint")
            state = self._convert_stateful_objects_in_state(state, filter=filter or {})  # by all ranks: it may wait
            self._on_rank_zero(
                path,
                lambda: self.checkpoint_io.save_checkpoint(
                    checkpoint=to_cpu(state), path=path, storage_options=storage_options
                ),
            )

        # Here, and not in our CheckpointIO alone: the user may have brought another.
        save_checkpoint = _save_trainer if namespace.is_trainer else _save_fabric

        def _read_trainer(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Any:
            if self.lightning_module is not None:
                refuse_resume(self.backend, self.lightning_module.trainer)
            with self.reading(checkpoint_path):
                checkpoint = super().load_checkpoint(checkpoint_path, *args, **kwargs)
            refuse_other_than_dict(checkpoint_path, checkpoint)
            if self.lightning_module is not None and self.lightning_module.trainer.ckpt_path == checkpoint_path:
                refuse_other_parts(checkpoint_path, checkpoint)
            return checkpoint

        def _read_fabric(self, path: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
            if _has_optimizer(state):  # weights alone are read to go on with nothing
                refuse_denied(self.backend, "resume")
            with self.reading(path):
                return super().load_checkpoint(path, state, *args, **kwargs)

        load_checkpoint = _read_trainer if namespace.is_trainer else _read_fabric

        def reading(self, path: Any) -> AbstractContextManager[None]:
            """Read the checkpoint ``path`` inside; one rank looks for damage in a file that all of them read."""
            return reading(path, check=self.is_global_zero or os.path.isdir(str(path)))

        def _on_rank_zero(self, path: Any, save: Callable[[], None]) -> None:
            """Have rank 0 save; where that fails, raise on every rank, for else the others wait for one that left."""
            self._on_every_rank(path, save if self.is_global_zero else lambda: None)

        def _on_every_rank(self, path: Any, save: Callable[[], None]) -> None:
            """Save; where that fails on any rank, raise on all of them."""
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
            raise CheckpointError(f"rank {rank} could not write the checkpoint {path}, so no rank goes on: {reason}")

    return SavingStrategy


def _has_optimizer(state: Any) -> bool:
    from torch.optim import Optimizer

    objects = state.values() if isinstance(state, dict) else [state]
    return any(isinstance(each, Optimizer) for each in objects)
