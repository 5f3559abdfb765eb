"""One captured training step."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.utils._pytree import tree_map, tree_unflatten

from northbridge.backend import Backend
from northbridge.errors import UnsupportedError
from northbridge.graphs.capture import capturing, unchanged
from northbridge.graphs.signature import (
    copy_into,
    flatten,
    python_state,
    reject_changes,
    reject_elsewhere,
    signature_of,
    static_copies,
)
from northbridge.lightning.callbacks.capturable import numbers_of


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
