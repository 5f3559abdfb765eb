"""Mixin of strategies for a Fabric: its calls, and its checkpoints."""

from __future__ import annotations

from functools import wraps
from typing import Any

from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins.checkpoint_io import to_cpu
from northbridge.lightning.strategies.unsupported import reject_unsupported


class _FabricMixin(_NamespaceMixin):
    """Stands before :class:`_ChipMixin` in a strategy for a Fabric."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "stock_class" not in vars(cls):  # not combined yet, or a user's
            return

        # A Fabric forbids loss.backward() under a strategy that has its own: this one passes for Lightning's, wrapped.
        @wraps(cls.stock_class.backward)
        def backward(self: Any, *args: Any, **kwargs: Any) -> Any:
            return _FabricMixin.backward(self, *args, **kwargs)

        setattr(cls, "backward", backward)  # noqa: B010 - a method of a class that is made at run time

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients, and tell the bridge, for which a Fabric's strategy has no hook."""
        result = super().backward(*args, **kwargs)
        self._after_backward()
        return result

    def setup_optimizer(self, optimizer: Any) -> Any:
        """Set up ``optimizer``, which then steps the parameters on the chip."""
        reject_unsupported(self.backend, "fit")
        self._follow_moves([optimizer])
        return super().setup_optimizer(optimizer)

    # Here, and not in our CheckpointIO alone: the user may have brought another.

    def save_checkpoint(
        self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
    ) -> None:
        """Save ``state``, its tensors on the CPU."""
        reject_unsupported(self.backend, "checkpoint")
        state = self._convert_stateful_objects_in_state(state, filter=filter or {})  # by all ranks: it may wait
        self._on_rank_zero(
            path,
            lambda: self.checkpoint_io.save_checkpoint(
                checkpoint=to_cpu(state), path=path, storage_options=storage_options
            ),
        )

    def load_checkpoint(self, path: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Load the checkpoint into ``state``; raises :class:`CheckpointError` for what is no checkpoint."""
        if _has_optimizer(state):  # weights alone are read to go on with nothing
            reject_unsupported(self.backend, "resume")
        with self.reading(path):
            return super().load_checkpoint(path, state, *args, **kwargs)


def _has_optimizer(state: Any) -> bool:
    from torch.optim import Optimizer

    objects = state.values() if isinstance(state, dict) else [state]
    return any(isinstance(each, Optimizer) for each in objects)
