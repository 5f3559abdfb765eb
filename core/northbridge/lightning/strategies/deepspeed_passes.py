"""Backward passes between two steps, whose gradients DeepSpeed's ZeRO does not add up."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from northbridge.errors import UnsupportedError


class BackwardPasses:
    """The optimizers of DeepSpeed that have gradients for their next step.

    DeepSpeed expects ``engine.step()`` after each pass. Without it, stages 1 and 2 keep the gradients of the last pass
    only (DeepSpeed 0.19.8); so does stage 3 without a forward pass between.
    """

    def __init__(self) -> None:
        self._waiting: WeakSet[Any] = WeakSet()

    def follow(self, engine: Any) -> None:
        """Note the forward passes of ``engine``, after which stage 3 adds up gradients."""
        if engine.zero_optimization_partition_weights():
            engine.register_forward_pre_hook(lambda *_: self.end(engine.optimizer))

    def begin(self, engine: Any) -> None:
        """Raise :class:`UnsupportedError` if the gradients of ``engine`` would be wrong after another pass."""
        if not engine.zero_optimization():
            return
        if engine.optimizer in self._waiting:
            stage = engine.zero_optimization_stage()
            raise UnsupportedError(
                f"ZeRO {stage} cannot add the gradients of two backward(). Fix: add the losses", capability="deepspeed"
            )
        self._waiting.add(engine.optimizer)

    def end(self, optimizer: Any) -> None:
        """Note that ``optimizer`` has stepped."""
        self._waiting.discard(optimizer)
