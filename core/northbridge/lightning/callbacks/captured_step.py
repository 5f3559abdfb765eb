"""A callback that captures the training step, and replays it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.utils._pytree import tree_map, tree_unflatten

from northbridge.backend import Backend
from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.graphs.callables import graphing_backend
from northbridge.graphs.capture import GraphWarning, capturing, unchanged
from northbridge.graphs.signature import (
    addresses,
    copy_into,
    flatten,
    python_state,
    reject_changes,
    reject_elsewhere,
    reject_hooks,
    signature_of,
    static_copies,
)


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
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the training step was captured {self.max_graphs} times (max_graphs={self.max_graphs}): steps with a"
                " new shape or learning rate run without a graph. Fix: pad or drop odd batches, give the optimizer its"
                " learning rate as a tensor on the chip, or raise max_graphs",
                GraphWarning,
                stacklevel=2,
            )


class StepGraph:
    """The graph of one training step, for batches such as ``batch``."""

    def __init__(self, backend: Backend, module: Any, optimizer: Any, batch: Any) -> None:
        self._backend = backend
        self._module = module
        self._optimizer = optimizer
        leaves, structure = flatten(batch)
        reject_elsewhere("a tensor of the batch", leaves, backend.device.type)
        self._batch = batch
        self._static = static_copies(leaves)
        self._static_batch = tree_unflatten(self._static, structure)
        self._graph = backend.acceleration.graph()
        self._logged: list[tuple[str, torch.Tensor, dict[str, Any]]] = []
        self._was_given = False

    @staticmethod
    def signature(batch: Any, module: Any) -> Hashable:
        """Return all that a step's graph has built in of its batch, and of the module's modes."""
        return signature_of(batch), tuple(each.training for each in module.modules())

    def capture(self, step: Callable[[], None], closure: Any) -> None:
        """Capture ``step``, which runs Lightning's ``closure``; parameters, states and random numbers stay as they are.

        Raises :class:`UnsupportedError` for what a replay would not do.
        """
        before, numbers = python_state(self._module), numbers_of(self._optimizer, self._module)
        self._module.training_step = self._training_step(self._module.training_step)
        self._module.log = self._log
        try:
            with unchanged(self._backend.device, self._tensors()), capturing(self._graph):
                step()
        except RuntimeError as error:  # such an optimizer may also copy its count to the chip
            if numbers_of(self._optimizer, self._module) == numbers:
                raise
            raise self._counts_in_python() from error
        finally:
            del self._module.__dict__["training_step"], self._module.__dict__["log"]
        if not self._was_given:
            raise UnsupportedError(
                "training_step did not get its batch: a captured step would train on one for ever. Fix: let it take"
                " the batch",
                capability="graphs",
            )
        reject_changes(before, python_state(self._module))
        if numbers_of(self._optimizer, self._module) != numbers:
            raise self._counts_in_python()
        self._result = closure.consume_result()
        if self._result.loss is None:
            raise UnsupportedError(
                "training_step returned no loss while it was captured, so no replay would train. Fix: return a loss for"
                " each batch, or leave CapturedStep out",
                capability="graphs",
            )
        self._result.closure_loss = None
        self._gradients = [(each, each.grad) for each in self._module.parameters()]
        self._batch = None

    def replay(self, batch: Any, closure: Any) -> None:
        """Do the step with ``batch``; Lightning finds its result in ``closure``."""
        copy_into(self._static, flatten(batch)[0])
        self._graph.replay()
        for parameter, gradient in self._gradients:
            if parameter.grad is not gradient:  # a step without a graph made its own
                parameter.grad = gradient
        result = type(self._result)(None, extra=tree_map(_copied, self._result.extra))
        result.loss = _copied(self._result.loss)
        closure._result = result
        if self._logged:
            self._log_again()

    def _log_again(self) -> None:
        module = self._module
        within, module._current_fx_name = module._current_fx_name, "training_step"
        with module.trainer.precision_plugin.train_step_context():  # autocast may cast the mean of a metric
            for name, value, options in self._logged:
                module.log(name, value.clone(), **options)
        module._current_fx_name = within

    def _counts_in_python(self) -> UnsupportedError:
        kind = type(getattr(self._optimizer, "optimizer", self._optimizer))
        return UnsupportedError(
            f"{kind.__name__} counts its steps in Python, as no replay does. Fix: torch.optim.AdamW(…,"
            " capturable=True), or leave CapturedStep out",
            capability="graphs",
        )

    def _tensors(self) -> list[torch.Tensor]:
        states = [value for state in self._optimizer.state.values() for value in state.values()]
        rates = [value for group in self._optimizer.param_groups for value in group.values()]
        found = [each for each in (*states, *rates) if isinstance(each, torch.Tensor)]
        return [*self._module.parameters(), *self._module.buffers(), *found]

    def _training_step(self, training_step: Callable[..., Any]) -> Callable[..., Any]:
        def with_static_batch(*args: Any, **kwargs: Any) -> Any:
            self._was_given = any(each is self._batch for each in (*args, *kwargs.values()))
            given = (self._static_batch if each is self._batch else each for each in args)
            named = {name: self._static_batch if each is self._batch else each for name, each in kwargs.items()}
            return training_step(*given, **named)

        return with_static_batch

    def _log(self, name: str, value: Any, *args: Any, **options: Any) -> None:
        if args or not isinstance(value, torch.Tensor):
            raise UnsupportedError(
                f"self.log({name!r}, …) in a captured step logs a {type(value).__name__}, which would be the same in"
                " each replay. Fix: log a tensor that the step computes, with options by name, or log in"
                " on_train_batch_end",
                capability="graphs",
            )
        self._logged.append((name, value.detach(), options))


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


_WITHIN_A_STEP = ("on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step")
_WITHOUT = "train without CapturedStep"
_STOCK = ("Callback", "ModelHooks", "LightningModule")


def _unsupported(found: str, fix: str) -> UnsupportedError:
    return UnsupportedError(f"a captured step cannot be used: {found}. Fix: {fix}", capability="graphs")


def reject_trainer(trainer: Any, module: Any, callback: Any) -> None:
    """Raise :class:`UnsupportedError` for a Trainer or a LightningModule whose step is not one piece of chip work."""
    if getattr(trainer.strategy, "backend", None) is None:
        found = f"{type(trainer.accelerator).__name__} is not a chip of Northbridge"
        raise _unsupported(found, f"accelerator= one of them, or {_WITHOUT}")
    if any(isinstance(each, type(callback)) for each in trainer.callbacks if each is not callback):
        raise _unsupported(f"the Trainer has {type(callback).__name__} twice", "use one")
    if not module.automatic_optimization:
        raise _unsupported("the module optimizes by hand", "call northbridge.GraphedCallable in training_step")
    reject_accumulation(trainer)
    if getattr(trainer.precision_plugin, "scaler", None) is not None:
        raise _unsupported("a gradient scaler reads the gradients on the host", "train in bfloat16")
    if torch.is_anomaly_enabled():
        raise _unsupported("detect_anomaly=True reads every gradient on the host", "leave it out")
    if len(trainer.optimizers) != 1:
        raise _unsupported(f"the module has {len(trainer.optimizers)} optimizers", "use one")
    for owner in (module, *(each for each in trainer.callbacks if each is not callback)):
        for name in (*_WITHIN_A_STEP, *(("optimizer_step",) if owner is module else ())):
            if _is_overridden(owner, name):
                found = f"{type(owner).__name__}.{name} would run while the step is captured and never in a replay"
                raise _unsupported(found, f"move it to on_train_batch_end, or {_WITHOUT}")


def reject_accumulation(trainer: Any) -> None:
    """Raise :class:`UnsupportedError` if gradients are accumulated now, which a callback may begin in any epoch."""
    if trainer.accumulate_grad_batches != 1:
        found = f"accumulate_grad_batches={trainer.accumulate_grad_batches}"
        raise _unsupported(found, f"use larger batches, or {_WITHOUT}")


def _is_overridden(owner: Any, name: str) -> bool:
    method = getattr(type(owner), name, None)
    return method is not None and method.__qualname__.partition(".")[0] not in _STOCK


def reject_module(module: torch.nn.Module, backend: Backend) -> None:
    """Raise :class:`UnsupportedError` if a part of ``module`` or a parameter has a hook, or is sharded."""
    if any(hasattr(each, "device_mesh") for each in module.parameters()):  # a DTensor
        raise _unsupported(
            "the model is sharded by hooks, which a replay does not run", f"strategy='ddp', or {_WITHOUT}"
        )
    reject_hooks(module, backend)
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise _unsupported(f"the parameter {name!r} has a hook, which a replay does not run", "remove it")


def reject_optimizer(optimizer: Any) -> None:
    """Raise :class:`UnsupportedError` if ``optimizer`` keeps a tensor on the CPU: a graph would freeze its value."""
    kind = type(getattr(optimizer, "optimizer", optimizer)).__name__
    states = [item for state in optimizer.state.values() for item in state.items()]
    rates = [item for group in optimizer.param_groups for item in group.items()]
    for name, value in states + rates:
        if isinstance(value, torch.Tensor) and value.device.type == "cpu":
            is_capturable = "capturable" in optimizer.defaults
            fix = f"{kind}(…, capturable=True)" if is_capturable else f"use AdamW with capturable=True, or {_WITHOUT}"
            fix = "put it on the chip" if name == "lr" else fix
            raise _unsupported(f"{kind} keeps {name!r} on the CPU, so that each replay would use one value", fix)


def numbers_of(optimizer: Any, module: torch.nn.Module) -> Hashable:
    """Return all that a graph of ``optimizer`` has built in: numbers in Python, and addresses of the parameters."""
    groups = tuple(
        (name, value)
        for group in optimizer.param_groups
        for name, value in sorted(group.items())
        if isinstance(value, (int, float, str, tuple))
    )
    counts = tuple(
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, (int, float))
    )
    return groups, counts, addresses(module.parameters())
