"""A callback that captures the training step, and replays it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError

if TYPE_CHECKING:
    from northbridge.lightning.callbacks.step_graph import StepGraph


class _CapturedStepMixin:
    """Capture whole training steps (forward, zero_grad, backward, clipping and optimizer step), and replay them.

    The first ``warmup_steps`` steps of a fit run as usual. After them, the first batch of each signature is captured,
    and each batch is copied into the inputs of its graph, which is replayed. A change of a learning rate that is a
    Python number drops the graphs, because they have the number built in. After ``max_graphs`` captures in one fit,
    batches without a graph run as usual, with one :class:`GraphWarning`.

    Python code of a step runs only while it is captured: all that ``training_step`` reads in Python, such as
    ``batch_idx``, is as it was then. ``self.log`` in it takes tensors, which are logged after each replay. During a fit
    the callback stands in for the module's ``optimizer_step``.

    Raises :class:`ArgumentsError`, and :class:`UnsupportedError` before or in the first captured step for what a graph
    cannot hold: a hook that runs within a step, manual optimization, accumulated gradients, a gradient scaler, state
    of the optimizer on the CPU, an attribute that the step changes in Python.
    """

    def __init__(self, warmup_steps: int = 3, max_graphs: int = 10) -> None:
        for name, value in (("warmup_steps", warmup_steps), ("max_graphs", max_graphs)):
            if value < 1:
                raise ArgumentsError(f"{name}={value} is not 1 or more")
        self.warmup_steps = warmup_steps
        self.max_graphs = max_graphs
        self.captures = 0
        """Number of captures in this fit."""

        self.replays = 0
        """Number of replayed steps in this fit."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Check that the step can be captured, and stand in for the module's ``optimizer_step``."""
        from northbridge.graphs.callables import graphing_backend
        from northbridge.lightning.callbacks.capturable import reject_module, reject_trainer

        reject_trainer(trainer, pl_module, self)
        self._backend = graphing_backend(trainer.strategy.backend)
        reject_module(pl_module, self._backend)
        self.captures = self.replays = 0
        self._graphs: dict[Hashable, StepGraph] = {}
        self._numbers: Hashable = None
        self._steps_left = self.warmup_steps
        self._warned = False
        self._trainer, self._module, self._batch = trainer, pl_module, None
        self._usual: Callable[..., None] = pl_module.optimizer_step
        pl_module.optimizer_step = self._step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Note the batch of the next step."""
        self._batch = batch

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Drop the graphs, and leave the module as it was."""
        self._leave(pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Drop the graphs, and leave the module as it was."""
        self._leave(pl_module)

    def _leave(self, module: Any) -> None:
        if vars(module).pop("optimizer_step", None) is not None:
            self._graphs.clear()
            del self._module, self._trainer, self._batch, self._usual

    def _step(self, epoch: int, batch_idx: int, optimizer: Any, closure: Any) -> None:
        from northbridge.lightning.callbacks.capturable import numbers_of, reject_accumulation, reject_optimizer
        from northbridge.lightning.callbacks.step_graph import StepGraph

        reject_accumulation(self._trainer)
        if self._steps_left > 0:
            self._steps_left -= 1
            self._usual(epoch, batch_idx, optimizer, closure)
            return
        numbers = numbers_of(optimizer, self._module)
        if numbers != self._numbers:
            self._graphs.clear()
            self._numbers = numbers
        signature = StepGraph.signature(self._batch, self._module)
        graph = self._graphs.get(signature)
        if graph is None:
            if self.captures >= self.max_graphs:
                self._warn_once()
                self._usual(epoch, batch_idx, optimizer, closure)
                return
            reject_optimizer(optimizer)
            self.captures += 1
            graph = StepGraph(self._backend, self._module, optimizer, self._batch)
            graph.capture(lambda: self._usual(epoch, batch_idx, optimizer, closure), closure)
            self._graphs[signature] = graph
        graph.replay(self._batch, closure)
        self.replays += 1

    def _warn_once(self) -> None:
        from northbridge.graphs.capture import GraphWarning

        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the training step was captured {self.max_graphs} times (max_graphs={self.max_graphs}): steps with a"
                " new shape or learning rate run without a graph. Fix: pad or drop odd batches, give the optimizer its"
                " learning rate as a tensor on the chip, or raise max_graphs",
                GraphWarning,
                stacklevel=2,
            )
