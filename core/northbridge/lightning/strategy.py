"""What the single-device and the DDP strategy share."""

from __future__ import annotations

from functools import cache, cached_property, partial, wraps
from typing import TYPE_CHECKING, Any

from northbridge.bridge import Bridge
from northbridge.discovery import get, load
from northbridge.errors import WrongDeviceError
from northbridge.journal import logger
from northbridge.lightning import random_states
from northbridge.lightning.accelerator import announce_simulation, is_ours
from northbridge.lightning.checkpoint import stock_format, to_cpu
from northbridge.lightning.dtypes import warn_of_batch, warn_of_module

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from northbridge.backend import Backend
    from northbridge.lightning.faces import Face


class LoadFirst:
    """Load a backend when unpickled.

    A spawned rank unpickles its strategy before anything else has named the chip, and ``torch.device("acme", 0)`` is
    an error in a process that has not loaded acme. So the first thing in a strategy's pickled state is one of these.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return _load_first, (self.name,)


def _load_first(name: str) -> LoadFirst:
    load(name)
    return LoadFirst(name)


def make_chip_strategy(face: Face, stock: Any, checkpoint_io: Any) -> Any:
    """Return a subclass of Lightning's strategy ``stock`` that runs on the accelerator's chip.

    It inherits from ``stock`` alone: only then can a strategy that the user built be given our class in place. Where
    Trainer and Fabric call a method by different names, the class carries both, and each host calls its own.
    """

    class ChipStrategy(stock):  # type: ignore[misc]  # Lightning's class of this face, known at run time
        _checkpoint_io: Any
        _random_states: dict[str, Any] | None = None  # of the checkpoint that the fit takes up
        _saw_a_batch = False
        stock_class = stock

        @property
        def backend(self) -> Backend:
            """The backend of the accelerator that this strategy was given."""
            backend: Backend = self.accelerator.backend
            return backend

        @property
        def root_device(self) -> torch.device:
            """The device of this rank, as this process calls it."""
            device: torch.device = super().root_device
            if not is_ours(self.accelerator) or device.type != self.backend.device.type:
                return device
            return self._root(device.index or 0)

        @property
        def checkpoint_io(self) -> Any:
            if self._checkpoint_io is None:
                self._checkpoint_io = checkpoint_io()
            return super().checkpoint_io

        @checkpoint_io.setter
        def checkpoint_io(self, io: Any) -> None:
            self._checkpoint_io = io

        def setup_environment(self) -> None:
            self.take_device()
            super().setup_environment()
            self.announce()

        @property
        def _ranks(self) -> int:
            return int(getattr(self, "world_size", 1))  # a strategy of one device has none

        def take_device(self) -> None:
            """Take this rank's device; called again, it does nothing."""
            self.accelerator.take(super().root_device, local_rank=int(self.local_rank), world_size=int(self.world_size))

        def announce(self) -> None:
            """Say on rank 0 what a user should know of the chip; called as soon as the ranks are known."""
            if self.is_global_zero:
                announce_simulation(self.backend)

        def model_to_device(self) -> None:
            super().model_to_device()
            assert_on_device(self.model, self.root_device)
            self._warn_of(self.model)

        def module_to_device(self, module: torch.nn.Module) -> None:
            super().module_to_device(module)
            assert_on_device(module, self.root_device)
            self._warn_of(module)

        def _warn_of(self, module: torch.nn.Module) -> None:
            if self.is_global_zero:  # all ranks have the same module
                plugin = self.precision_plugin if face.is_trainer else self.precision
                # The user's own plugin may have no word.
                warn_of_module(self.backend, module, str(getattr(plugin, "precision", "")))

        # Bound on first use, and kept: a training step looks nothing up.

        @cached_property
        def _root(self) -> Callable[[int], torch.device]:
            return cache(self.backend.device.root)

        @cached_property
        def _after_backward(self) -> Callable[[], None]:
            return self.backend.bridge.after_backward

        @cached_property
        def _after_evaluation(self) -> Callable[[], None]:
            return self.backend.bridge.after_evaluation

        @cached_property
        def _after_step(self) -> Callable[[], None]:
            return self.backend.bridge.after_step

        # Said to be Lightning's, wrapped: a Fabric forbids loss.backward() under a strategy that has its own.
        @wraps(stock.backward)
        def backward(self, *args: Any, **kwargs: Any) -> Any:
            result = super().backward(*args, **kwargs)
            self._after_backward()
            return result

        def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
            result = super().optimizer_step(*args, **kwargs)
            self._after_step()
            return result

        # The Trainer's steps that no backward pass follows; a Fabric's are seen at its modules.

        def validation_step(self, *args: Any, **kwargs: Any) -> Any:
            result = super().validation_step(*args, **kwargs)
            self._after_evaluation()
            return result

        def test_step(self, *args: Any, **kwargs: Any) -> Any:
            result = super().test_step(*args, **kwargs)
            self._after_evaluation()
            return result

        def predict_step(self, *args: Any, **kwargs: Any) -> Any:
            result = super().predict_step(*args, **kwargs)
            self._after_evaluation()
            return result

        def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
            module = super().setup_module(module)
            if type(self.backend.bridge).after_evaluation is not Bridge.after_evaluation:
                module.register_forward_hook(partial(_after_forward, self.backend.name))
            return module

        def batch_to_device(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._saw_a_batch:
                self._saw_a_batch = True
                if self.is_global_zero:
                    warn_of_batch(self.backend, batch)
            return super().batch_to_device(batch, *args, **kwargs)

        # A fit that takes up a checkpoint draws what the saved run would have drawn.

        def load_optimizer_state_dict(self, checkpoint: Any) -> None:
            super().load_optimizer_state_dict(checkpoint)
            self.note_random_states(checkpoint)

        def note_random_states(self, checkpoint: Any) -> None:
            """Keep this rank's random states of the checkpoint that a fit takes up."""
            ranks = self._ranks
            self._random_states = random_states.of_rank(checkpoint, self.global_rank, ranks)
            if self._random_states is None and random_states.KEY in checkpoint and self.is_global_zero:
                logger.warning(
                    "the checkpoint was written by %d ranks, and this run has %d: random numbers begin with the seed",
                    len(checkpoint[random_states.KEY]),
                    ranks,
                )

        def restore_random_states(self) -> None:
            """Put back the random states of the checkpoint; called when the loaders are there, before they shuffle."""
            if self._random_states is not None:
                random_states.restore(face, self._random_states)

        def on_train_start(self) -> None:
            super().on_train_start()
            batches = self.lightning_module.trainer.fit_loop.epoch_loop.batch_progress
            if batches.current.ready > 0 and not batches.is_last_batch:
                self.restore_random_states()  # once more: the loaders have shuffled for an epoch that had begun before
            self._random_states = None

        def teardown(self) -> None:
            super().teardown()
            self._random_states = None  # a fit that had nothing left to do has taken up nothing

        def with_random_states(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
            """Return ``checkpoint`` with the random states of every rank, unless it holds weights alone.

            Nor has one of several ranks that is written because of an error: this rank may be alone with it.
            """
            is_alone = self._ranks > 1 and self.lightning_module.trainer.interrupted
            if is_alone or "optimizer_states" not in checkpoint:
                return checkpoint
            return {**checkpoint, random_states.KEY: random_states.gather(face, self._ranks)}  # by all ranks

        def _save_trainer(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
            checkpoint = self.with_random_states(checkpoint)
            if self.is_global_zero:
                with stock_format():
                    super().save_checkpoint(to_cpu(checkpoint), filepath, storage_options)

        def _save_fabric(
            self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
        ) -> None:
            state = self._convert_stateful_objects_in_state(state, filter=filter or {})  # by all ranks: it may wait
            if self.is_global_zero:
                with stock_format():
                    self.checkpoint_io.save_checkpoint(to_cpu(state), path, storage_options)

        # Here, and not in our CheckpointIO alone: the user may have brought another.
        save_checkpoint = _save_trainer if face.is_trainer else _save_fabric

        def __getstate__(self) -> dict[str, Any]:
            state = {key: value for key, value in self.__dict__.items() if key not in _BOUND}
            first = {} if self._accelerator is None else {"_load_first": LoadFirst(self.backend.name)}
            return {**first, **state}

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.__dict__.update(state)

    return ChipStrategy


_BOUND = ("_root", "_after_backward", "_after_evaluation", "_after_step")


def _after_forward(backend: str, _module: object, _inputs: object, _output: object) -> None:
    # A hook of the user's module, which may be copied and pickled with it: so it holds no more than a name.
    import torch

    if not torch.is_grad_enabled():
        get(backend).bridge.after_evaluation()


def assert_on_device(module: Any, device: torch.device) -> None:
    """Raise :class:`WrongDeviceError` where a parameter or buffer of ``module`` is not on ``device``."""
    for kind, tensors in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, tensor in tensors:
            if tensor.device != device and tensor.device.type != "meta":
                raise WrongDeviceError(
                    f"{kind} {name!r} of {type(module).__name__} is on '{tensor.device}' after the model was moved to"
                    f" '{device}': let .to(device) move it, and do not pin it elsewhere"
                )
