"""Mixin of strategies for a Fabric: its calls, and its checkpoints."""

from __future__ import annotations

from functools import wraps
from typing import Any

from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins.checkpoint_io import to_cpu
from northbridge.lightning.plugins.gradient_norm import clip_grad_norm, clips_by_itself
from northbridge.lightning.strategies.unsupported import reject_unsupported


class _FabricMixin(_NamespaceMixin):
    """The parts of a strategy that only a Fabric uses. A base before :class:`_ChipMixin`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "stock_class" not in vars(cls):  # not combined yet, or a user's class
            return

        # A Fabric forbids loss.backward() if a strategy has its own backward(). This one looks like Lightning's.
        @wraps(cls.stock_class.backward)
        def backward(self: Any, *args: Any, **kwargs: Any) -> Any:
            return _FabricMixin.backward(self, *args, **kwargs)

        setattr(cls, "backward", backward)  # noqa: B010 - the class is made at run time

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients, and tell the bridge: a Fabric's strategy has no hook for it."""
        result = super().backward(*args, **kwargs)
        self._after_backward()
        return result

    def setup_optimizer(self, optimizer: Any) -> Any:
        """Set up ``optimizer`` so that it steps the parameters on the chip."""
        reject_unsupported(self.backend, "fit")
        self._follow_moves([optimizer])
        self._settle_fused([optimizer])
        return super().setup_optimizer(optimizer)

    def clip_gradients_norm(
        self,
        module: Any,
        optimizer: Any,
        max_norm: float,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = True,
    ) -> Any:
        """Clip the gradients by their norm, by the chip's own function if it has one."""
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if not clips_by_itself(self.backend, parameters, norm_type):
            return super().clip_gradients_norm(module, optimizer, max_norm, norm_type, error_if_nonfinite)
        self.precision.unscale_gradients(optimizer)
        return clip_grad_norm(
            self.backend, self.precision.main_params(optimizer), max_norm, error_if_nonfinite=error_if_nonfinite
        )

    # Here, and not only in our CheckpointIO: the user may have passed another.

    def save_checkpoint(
        self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
    ) -> None:
        """Save ``state`` with its tensors on the CPU."""
        reject_unsupported(self.backend, "checkpoint")
        state = self._convert_stateful_objects_in_state(state, filter=filter or {})  # on all ranks: it may wait
        self._on_rank_zero(
            path,
            lambda: self.checkpoint_io.save_checkpoint(
                checkpoint=to_cpu(state), path=path, storage_options=storage_options
            ),
        )

    def load_checkpoint(self, path: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Load the checkpoint into ``state``. Raises :class:`CheckpointError` for a file that is not a checkpoint."""
        if _has_optimizer(state):  # reading only weights does not resume a training
            reject_unsupported(self.backend, "resume")
        with self.reading(path):
            return super().load_checkpoint(path, state, *args, **kwargs)


def _has_optimizer(state: Any) -> bool:
    from torch.optim import Optimizer

    objects = state.values() if isinstance(state, dict) else [state]
    return any(isinstance(each, Optimizer) for each in objects)
