"""The DeepSpeed strategy of every backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch

from northbridge.errors import CheckpointError, UnsupportedError
from northbridge.lightning.plugins.checkpoint_io import to_cpu, writing
from northbridge.lightning.strategies.deepspeed_accelerator import (
    Determinism,
    check_builders,
    choose_accelerator,
    place,
    run_as_wanted,
)
from northbridge.lightning.strategies.deepspeed_config import (
    reject_accumulation,
    reject_config,
    reject_no_optimizer,
    reject_optimizer,
    reject_rebuilt_optimizer,
)
from northbridge.lightning.strategies.hosts import _FabricMixin
from northbridge.lightning.strategies.optimizers import following
from northbridge.lightning.strategies.parallel import _ParallelMixin
from northbridge.lightning.strategies.sharded import _TrainerShardsMixin, move_whole_tensors
from northbridge.lightning.strategies.unsupported import reject_module, reject_unsupported


class _DeepSpeedMixin(_ParallelMixin):
    """Trains with DeepSpeed's ZeRO on a chip's devices, one process each, over the chip's communication library."""

    _before: Determinism | None = None  # the run
    _local_rank_before: str | None = None

    def setup_environment(self) -> None:
        """Acquire this rank's device, and meet the other ranks. Lightning's own would ask for CUDA."""
        self.acquire_device()
        super(self.stock_class, self).setup_environment()
        self.announce()

    def _setup_distributed(self) -> None:
        deepspeed: Any = import_module("deepspeed")
        accelerator = choose_accelerator(self.backend)
        check_builders(self.backend, accelerator)
        reject_config(self.backend, accelerator, self.config, self.remote_device)
        self._settle_config()
        super()._setup_distributed()
        place(accelerator, self.root_device)
        self._local_rank_before = os.environ.get("LOCAL_RANK")
        os.environ["LOCAL_RANK"] = str(self.local_rank)  # DeepSpeed reads it throughout the run
        self._before = run_as_wanted(accelerator)
        # It adopts the process group. Without this call it would make one of its own.
        deepspeed.init_distributed(self._process_group_backend, auto_mpi_discovery=False, timeout=self._timeout)

    def _settle_config(self) -> None:
        if (self.config.get("zero_optimization") or {}).get("offload_optimizer"):
            # Otherwise DeepSpeed refuses every optimizer that the user makes, except its own for host memory.
            self.config.setdefault("zero_force_ds_cpu_optimizer", False)

    def _say_which_optimizer(self, which: str) -> None:
        self.namespace.fabric_module("utilities.rank_zero").rank_zero_info(f"DeepSpeed trains with {which}")

    def _prepare(self, model: torch.nn.Module, optimizers: Iterable[Any] = (), *, fits: bool) -> None:
        """Move ``model`` to this rank's device, unless its parameters are sharded already; ``optimizers`` follow."""
        reject_module(self.backend, model, self.root_device, fits=fits)
        self._drive_sync_batch_norm(model)
        if any(hasattr(each, "ds_id") for each in model.parameters()):
            move_whole_tensors(model, self.root_device)  # those that DeepSpeed has not sharded
        else:
            with following(model):
                model.to(self.root_device)
            self._check_moved(model)
            self._follow_moves(optimizers)
        self._settle_fused(optimizers)

    @cached_property
    def _passes(self) -> BackwardPasses:
        return BackwardPasses()

    def backward(self, loss: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients.

        Raises :class:`UnsupportedError` for a second pass before the step, unless DeepSpeed accumulates by itself.
        """
        if not self.namespace.is_trainer:
            self._passes.begin(args[0])  # Fabric's second argument is the engine
        else:
            kwargs.setdefault("scale_wrt_gas", False)  # a Trainer has divided the loss by accumulate_grad_batches
            if not self.lightning_module.automatic_optimization:
                self._passes.begin(self.model)
        return super().backward(loss, *args, **kwargs)

    def optimizer_step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Step ``optimizer``, and tell the bridge."""
        result = super().optimizer_step(optimizer, *args, **kwargs)
        self._passes.end(optimizer)
        return result

    def _complete_engine(self, engine: Any, *, fits: bool) -> None:
        if fits:
            self._passes.follow(engine)
        elif engine.zero_optimization_partition_weights():
            # DeepSpeed 0.19.8 calls it on load, but only optimizers have it. Nothing else copies the weights.
            engine.optimizer._restore_from_bit16_weights = lambda: None
        engine.load_checkpoint = partial(_load, engine, engine.load_checkpoint)
        if engine.checkpoint_engine is not None:
            # Files that open without the chip: torch notes the device of each tensor in them.
            engine.checkpoint_engine.save = partial(_save, engine.checkpoint_engine.save)

    def _replace_together(self, path: Any, save: Callable[[Path], None]) -> None:
        def write(draft: Path) -> None:
            with writing(Path(path)):
                save(draft)

        super()._replace_together(path, write)

    def teardown(self) -> None:
        """Give the process its settings back, which DeepSpeed has changed."""
        super().teardown()
        if self._before is not None:
            self._before.apply()
            if self._local_rank_before is None:
                os.environ.pop("LOCAL_RANK", None)
        self._before = None


class _TrainerDeepSpeedMixin(_TrainerShardsMixin, _DeepSpeedMixin):
    """Trains a Trainer's model with DeepSpeed's ZeRO."""

    config: dict[str, Any]

    prefers_module = False
    """True if the optimizer of ``configure_optimizers()`` trains, and not the configuration's, if both have one."""

    _set_aside: dict[str, Any] | None = None  # the configuration's optimizer, where the module's is preferred

    def _initialize_deepspeed_train(self, model: Any) -> None:
        given = self.config.get("optimizer")
        if given and self.prefers_module:
            self._set_aside = given
            self.config = {key: value for key, value in self.config.items() if key != "optimizer"}
        elif given:
            self._say_which_optimizer(f"{given.get('type')} of its config; configure_optimizers() is not called")
        super()._initialize_deepspeed_train(model)

    def _init_optimizers(self) -> Any:
        made = self.namespace.module("core.optimizer")._init_optimizers_and_lr_schedulers(self.lightning_module)
        optimizers, schedulers = [each for each in made[0] if each.param_groups], made[1]  # None becomes an empty one
        if self._set_aside is not None:
            other = f"{self._set_aside.get('type')} of its config"
            if not optimizers:
                self._say_which_optimizer(f"{other}; configure_optimizers() returned none")
                self.config["optimizer"] = self._set_aside
                return None, None
            self._say_which_optimizer(f"{type(optimizers[0]).__name__} of configure_optimizers(), not with {other}")
        if len(optimizers) != 1 or len(schedulers) > 1:
            raise self.namespace.module("utilities.exceptions").MisconfigurationException(
                "DeepSpeed currently only supports single optimizer, single optional scheduler; configure_optimizers()"
                f" returned {len(optimizers)} and {len(schedulers)}. Fix: one optimizer with parameter groups"
            )
        return optimizers[0], schedulers[0] if schedulers else None

    def _setup_model_and_optimizer(self, model: Any, optimizer: Any, lr_scheduler: Any = None) -> Any:
        if optimizer is None:
            reject_optimizer(self.backend, self.config)
        reject_rebuilt_optimizer(self.config, optimizer, lr_scheduler)
        self._prepare(model, [] if optimizer is None else [optimizer], fits=True)
        made = super()._setup_model_and_optimizer(model, optimizer, lr_scheduler)
        self._complete_engine(made[0], fits=True)
        return made

    def _initialize_deepspeed_inference(self, model: Any) -> None:
        self._prepare(model, fits=False)
        super()._initialize_deepspeed_inference(model)
        self._complete_engine(self.model, fits=False)


class _FabricDeepSpeedMixin(_FabricMixin, _DeepSpeedMixin):
    """Trains a Fabric's model with DeepSpeed's ZeRO."""

    _config_initialized: bool

    def _settle_config(self) -> None:
        super()._settle_config()
        reject_accumulation(self.config)
        # A Trainer's strategy writes 0 too. DeepSpeed's default is 1, which would clip where the user asks for nothing.
        self.config.setdefault("gradient_clipping", 0.0)

    def _setup_distributed(self) -> None:
        super()._setup_distributed()
        if not self._config_initialized:
            self._format_config()
            self._config_initialized = True

    def _initialize_engine(self, model: Any, optimizer: Any = None, scheduler: Any = None) -> Any:
        fits = optimizer is not None
        if fits:
            reject_unsupported(self.backend, "fit")
            reject_rebuilt_optimizer(self.config, optimizer, scheduler)
            other = (self.config.get("optimizer") or {}).get("type")
            if other:
                self._say_which_optimizer(f"{type(optimizer).__name__} of setup(), not with {other} of its config")
        else:
            reject_optimizer(self.backend, self.config)
            reject_no_optimizer(self.config)
        self._prepare(model, [optimizer] if fits else [], fits=fits)
        made = super()._initialize_engine(model, optimizer, scheduler)
        self._complete_engine(made[0], fits=fits)
        return made

    def setup_optimizer(self, optimizer: Any) -> Any:
        """Raise Lightning's error: DeepSpeed sets up the optimizer together with its model."""
        return self.stock_class.setup_optimizer(self, optimizer)

    def clip_gradients_norm(self, *args: Any, **kwargs: Any) -> Any:
        """Raise Lightning's error: DeepSpeed clips by ``gradient_clipping`` of its configuration."""
        return self.stock_class.clip_gradients_norm(self, *args, **kwargs)

    def save_checkpoint(
        self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
    ) -> None:
        """Let every rank save its shards, with tensors on the CPU."""
        reject_unsupported(self.backend, "checkpoint")
        save = self.stock_class.save_checkpoint
        self._replace_together(path, lambda path: save(self, path, state, storage_options, filter))


def _save(save: Any, state_dict: Any, path: str) -> Any:
    return save(to_cpu(state_dict), path)


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


def _load(engine: Any, load: Any, path: Any, *args: Any, load_optimizer_states: bool = True, **kwargs: Any) -> Any:
    # DeepSpeed 0.19.8 ends with an assertion without a text, or an error about a missing file, at another stage's.
    stage, saved = engine.zero_optimization_stage(), _stage_of(Path(path))
    # Without optimizer states, stages 0 to 2 have the same file.
    same = (stage > 2) == (saved > 2) and (not load_optimizer_states or bool(stage) == bool(saved))
    if saved >= 0 and not same:
        raise CheckpointError(f"{path} is of ZeRO {saved}, which ZeRO {stage} cannot read. Fix: stage={saved}")
    return load(path, *args, load_optimizer_states=load_optimizer_states, **kwargs)


def _stage_of(folder: Path) -> int:
    """Return the stage that saved ``folder``, 2 for stage 1 too; -1 if its files do not tell."""
    latest = folder / "latest"
    tag = latest.read_text().strip() if latest.is_file() else "checkpoint"
    names = [each.name for each in (folder / tag).glob("*_states.pt")]
    if any(name.startswith("zero_pp_rank_") and name.endswith("_model_states.pt") for name in names):
        return 3
    if any(name.endswith("_optim_states.pt") for name in names):
        return 2
    return 0 if names else -1
