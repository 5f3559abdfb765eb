"""A callback that records chosen steps of a fit, for ``northbridge diff``."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Any

from northbridge.snapshots.recorder import Recorder


class _SnapshotsMixin:
    """Record chosen steps of a fit in ``folder``, for ``northbridge diff``.

    ``steps`` is a container of step numbers, such as ``range(0, 10_000, 100)``; by default the first five steps and
    then one of a thousand. A step is all batches of one optimizer step. Other steps have no hooks. Compiled modules are
    recorded as a whole. With ``CapturedStep``, only the batch, the parameters, gradients and updates are. Validation is
    not recorded. ``northbridge.Snapshots`` has the details.

    Raises :class:`ArgumentsError` for another ``steps``.
    """

    siblings: Any

    def __init__(self, folder: str | os.PathLike[str], steps: Container[int] | None = None) -> None:
        self._arguments = folder, steps
        self._recorder = Recorder(folder, steps)
        self._step = self._stepped = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a new record."""
        self._recorder = Recorder(*self._arguments)
        self._step = self._stepped = trainer.global_step
        self._captured = any(isinstance(each, self.siblings.captured_step) for each in trainer.callbacks)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, *_: Any) -> None:
        """Install the hooks if the step is recorded."""
        self._recorder.begin(pl_module, trainer.optimizers, self._step, captured=self._captured)
        self._recorder.note_batch(batch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Remove the hooks, and write the step unless more of its batches come."""
        if trainer.global_step == self._stepped:
            self._recorder.pause()
            return
        self._recorder.end()
        self._stepped = trainer.global_step
        self._step += 1

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Forget a step that has not ended."""
        self._recorder.drop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Remove the hooks."""
        self._recorder.drop()
