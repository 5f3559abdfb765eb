"""The record of chosen steps, a file for each rank; and the ``with`` that records a training without a Trainer."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import torch
from typing_extensions import Self

from northbridge.errors import ArgumentsError
from northbridge.process_record import logger
from northbridge.processes.endings import describe_error
from northbridge.snapshots.records import MOST_BYTES, HeaderRecord, name_file
from northbridge.snapshots.step import StepRecording

_FIRST, _EVERY = 5, 1000


class Recorder:
    """Record the steps in ``steps``, by default the first five and then one of a thousand."""

    def __init__(self, folder: str | os.PathLike[str], steps: Container[int] | None) -> None:
        if steps is not None and (isinstance(steps, str) or not isinstance(steps, Container)):
            raise ArgumentsError(f"steps={steps!r} is not a range, list or set of steps. Fix: steps=range(0, 1000, 10)")
        self._folder = Path(folder)
        self._steps = steps
        self._step: StepRecording | None = None
        self._bytes = 0

    def begin(self, model: torch.nn.Module, optimizers: Iterable[Any], step: int, *, captured: bool = False) -> None:
        """Install the hooks if ``step`` is recorded; a step may be paused and begun again."""
        if step < _FIRST or step % _EVERY == 0 if self._steps is None else step in self._steps:
            if self._step is None:
                self._step = StepRecording(model, optimizers, step, captured=captured)
            self._step.install()

    def note_batch(self, batch: Any) -> None:
        """Record the batch of the current step, if that is recorded."""
        if self._step is not None:
            self._step.note_batch(batch)

    def pause(self) -> None:
        """Remove the hooks; the step goes on with the next batch."""
        if self._step is not None:
            self._step.remove()

    def end(self) -> None:
        """Remove the hooks, and write the step."""
        step, self._step = self._step, None
        if step is not None:
            step.finish()
            self._write(step.record)

    def drop(self) -> None:
        """Remove the hooks, and forget the step."""
        self.pause()
        self._step = None

    def _write(self, step: dict[str, object]) -> None:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = torch.distributed.get_rank() if distributed else 0
        world_size = torch.distributed.get_world_size() if distributed else 1
        path, lines = self._folder / name_file(rank), [step]
        try:
            if not self._bytes:
                lines.insert(0, HeaderRecord(rank=rank, world_size=world_size).model_dump())
            data = "".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in lines).encode()
            if self._bytes + len(data) > MOST_BYTES:
                raise OSError(f"the file would exceed {MOST_BYTES >> 20} MiB")
            if not self._bytes:
                self._folder.mkdir(parents=True, exist_ok=True)
                # A new file each time: in a shared folder, the path may be a link or another user's file.
                path.unlink(missing_ok=True)
            with path.open("ab" if self._bytes else "xb") as file:
                if file.tell() != self._bytes:
                    raise OSError(f"another record replaced {path.name}")
                self._bytes += file.write(data)
        except OSError as error:
            # A log message, not an error: the training is worth more than its record.
            self._steps = ()
            why = describe_error(error)
            logger.warning("Snapshots records no more steps: %s; earlier ones are in %s", why, self._folder)


class Snapshots:
    """Record chosen steps of ``module`` in ``folder``, for ``northbridge diff``; for plain torch, and for a Fabric.

    Put each step into a ``with``, from the batch to the end of the optimizer's step::

        snapshots = northbridge.Snapshots("run-a", model, optimizer)
        for batch in loader:
            with snapshots:
                ...

    ``steps`` is a container of step numbers, such as ``range(0, 10_000, 100)``; by default the first five steps and
    then one of a thousand. A step is one ``with``, with all its micro-batches. Other steps have no hooks. Each module
    call, each gradient, each parameter and its update has its shape, dtype, norm, largest value, a fingerprint of its
    bits, 16 of its values and 32 sums. A recorded step needs a copy of the parameters on the host. A new record
    replaces the one of its rank in ``folder``. An error in writing is logged and ends the record, not the training.

    A Trainer needs the callback of the same name. Raises :class:`ArgumentsError` for an argument of another type.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        module: torch.nn.Module,
        *optimizers: Any,
        steps: Container[int] | None = None,
    ) -> None:
        if not isinstance(module, torch.nn.Module):
            raise ArgumentsError(f"Snapshots: a {type(module).__name__} is not a module. Fix: Snapshots(folder, model)")
        for each in optimizers:
            if not hasattr(getattr(each, "optimizer", each), "param_groups"):
                raise ArgumentsError(
                    f"Snapshots: a {type(each).__name__} is not an optimizer. Fix: Snapshots(folder, model, optimizer)"
                )
        self._recorder = Recorder(folder, steps)
        self._module, self._optimizers = module, optimizers
        self.step: int = 0
        """The number of the next step, which may be set after a resume."""

    def __enter__(self) -> Self:
        self._recorder.begin(self._module, self._optimizers, self.step)
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if error is not None:
            self._recorder.drop()
        else:
            self._recorder.end()
            self.step += 1

    def batch(self, batch: Any) -> None:
        """Record the tensors of ``batch``, targets too, so that another batch is told from another model's output."""
        self._recorder.note_batch(batch)
