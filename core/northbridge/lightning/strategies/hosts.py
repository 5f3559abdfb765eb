"""Mixins of strategies for a Trainer and for a Fabric: what only one of the two calls."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins import random_states
from northbridge.lightning.plugins.checkpoint_files import reject_other_parts, reject_other_than_dict
from northbridge.lightning.plugins.checkpoint_io import to_cpu
from northbridge.lightning.plugins.float8 import use_requested
from northbridge.lightning.plugins.precision import clip_grad_norm, clips_by_itself
from northbridge.lightning.strategies.optimizers import follow, following
from northbridge.lightning.strategies.unsupported import reject_module, reject_unsupported
from northbridge.process_record import logger


class _TrainerMixin(_NamespaceMixin):
    """The parts of a strategy that only a Trainer uses. A base before :class:`_ChipMixin`."""

    _random_states: dict[str, Any] | None = None  # of the checkpoint that the fit resumes

    def setup_environment(self) -> None:
        """Reject features of this run that the chip does not support, before a device is acquired."""
        trainer = self._attached_trainer
        if trainer is not None:
            use_requested(self)
            if self._fits():
                reject_unsupported(self.backend, "fit", *(["checkpoint"] if trainer.checkpoint_callbacks else []))
            if self.backend.present_capabilities().inference_mode.denied:  # torch.no_grad is used then
                for loop in (trainer.validate_loop, trainer.test_loop, trainer.predict_loop):
                    loop.inference_mode = False
        super().setup_environment()

    @property
    def _attached_trainer(self) -> Any:
        """The Trainer that the connected model is attached to; None if it is attached to none, or none is connected."""
        return getattr(self.lightning_module, "_trainer", None)  # its property `trainer` would raise an error

    def _fits(self) -> bool:
        trainer = self._attached_trainer
        return trainer is not None and bool(trainer.state.fn == "fit")

    def model_to_device(self) -> None:
        """Move the model to this rank's device, unless the chip cannot hold or train its tensors."""
        reject_module(self.backend, self.model, self.root_device, fits=self._fits())
        with following(self.model):
            super().model_to_device()
        self._check_moved(self.model)

    def setup_optimizers(self, trainer: Any) -> None:
        """Set up the optimizers so that they step the parameters on the chip."""
        super().setup_optimizers(trainer)
        self._follow_moves(self.optimizers)
        self._settle_fused(self.optimizers)

    def post_backward(self, closure_loss: torch.Tensor) -> None:
        """Tell the bridge about a backward pass."""
        super().post_backward(closure_loss)
        self._after_backward()

    # No backward pass follows these steps; a Fabric's are observed at its modules.

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        """Validate a batch, and tell the bridge."""
        result = super().validation_step(*args, **kwargs)
        self._after_evaluation()
        return result

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        """Test a batch, and tell the bridge."""
        result = super().test_step(*args, **kwargs)
        self._after_evaluation()
        return result

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        """Predict a batch, and tell the bridge."""
        result = super().predict_step(*args, **kwargs)
        self._after_evaluation()
        return result

    def teardown(self) -> None:
        """Move the model back to the CPU, and the optimizers with it."""
        if self.lightning_module is None:
            super().teardown()
        else:
            with following(self.lightning_module):
                super().teardown()
            for optimizer in self.optimizers:
                follow(optimizer)
        self._random_states = None  # a fit with no steps left has not used them

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.optimizers: Any = state["_optimizers"]  # wraps each again in Lightning's setter, as at set-up

    # A fit that resumes from a checkpoint draws the numbers that the saved run would have drawn.

    def load_optimizer_state_dict(self, checkpoint: Any) -> None:
        """Restore the optimizers, and keep the random states of ``checkpoint``."""
        super().load_optimizer_state_dict(checkpoint)
        self.note_random_states(checkpoint)

    def note_random_states(self, checkpoint: Any) -> None:
        """Keep this rank's random states from the checkpoint that a fit resumes from."""
        states, ranks = random_states.of_checkpoint(checkpoint), self._ranks
        if states is None:
            return
        if len(states) == ranks:
            self._random_states = states[self.global_rank]
        elif self.is_global_zero:
            logger.warning(
                "the checkpoint was written by %d ranks, and this run has %d: random numbers begin with the seed",
                len(states),
                ranks,
            )

    def restore_random_states(self) -> None:
        """Restore the random states of the checkpoint; called after the loaders are built, before they shuffle."""
        if self._random_states is not None:
            random_states.restore(self.namespace, self._random_states)

    def on_train_start(self) -> None:
        """Restore the random states again for a fit that resumes in the middle of an epoch."""
        super().on_train_start()
        trainer = self._attached_trainer
        batches = None if trainer is None else trainer.fit_loop.epoch_loop.batch_progress
        if batches is not None and batches.current.ready > 0 and not batches.is_last_batch:
            self.restore_random_states()  # again: the loaders have just shuffled for an epoch that began before
        self._random_states = None

    def with_random_states(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
        """Return ``checkpoint`` with the random states of every rank, unless it holds only weights.

        A checkpoint that one of several ranks writes on an error has no random states: it cannot wait for the others.
        """
        if (self._ranks > 1 and self._is_alone()) or "optimizer_states" not in checkpoint:
            return checkpoint
        return random_states.add(checkpoint, random_states.gather(self.namespace, self._ranks))  # called on all ranks

    def _is_alone(self) -> bool:
        """Return True if no other rank saves with this one, also because this rank saves on an error."""
        trainer = self._attached_trainer
        return super()._is_alone() or (trainer is not None and trainer.interrupted and not self.ranks_end)

    # Here, and not only in our CheckpointIO: the user may have passed another.

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        """Save ``checkpoint`` with every rank's random states and with its tensors on the CPU."""
        reject_unsupported(self.backend, "checkpoint")
        checkpoint = self.with_random_states(checkpoint)
        self._on_rank_zero(
            filepath,
            lambda: super(_TrainerMixin, self).save_checkpoint(
                to_cpu(checkpoint), filepath, storage_options=storage_options
            ),
        )

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Read the checkpoint. Raises :class:`CheckpointError` if a Trainer cannot resume from it."""
        if self._fits():
            reject_unsupported(self.backend, "resume")
        with self.reading(checkpoint_path):
            checkpoint = super().load_checkpoint(checkpoint_path, *args, **kwargs)
        reject_other_than_dict(checkpoint_path, checkpoint)
        trainer = self._attached_trainer
        if trainer is not None and trainer.ckpt_path == checkpoint_path:
            reject_other_parts(checkpoint_path, checkpoint)
        return checkpoint


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
        objects = state.values() if isinstance(state, dict) else [state]
        if any(isinstance(each, torch.optim.Optimizer) for each in objects):  # weights alone resume no training
            reject_unsupported(self.backend, "resume")
        with self.reading(path):
            return super().load_checkpoint(path, state, *args, **kwargs)
