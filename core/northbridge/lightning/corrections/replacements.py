"""Replacements of Lightning's functions; ``table.py`` lists them.

Each function here replaces one of Lightning's, and so do some in ``connector``, ``profilers`` and ``strategies``. It
gets the namespace, Lightning's own function, and Lightning's arguments.
"""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from typing import Any

import torch

from northbridge.discovery.cards import counted_cards, on_cards
from northbridge.discovery.current import loaded
from northbridge.discovery.installed import names
from northbridge.discovery.present import detect
from northbridge.errors import BackendNotFoundError
from northbridge.lightning.accelerators.accelerator import hand_on, held, is_ours, load_with_hardware
from northbridge.lightning.accelerators.device_indices import reject_more_than_processes
from northbridge.lightning.classes import classes
from northbridge.lightning.connector import choices, devices, strategy_choice as decide
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins import precision, random_states
from northbridge.lightning.plugins.checkpoint_files import reading, reject_other_parts, reject_other_than_dict
from northbridge.lightning.strategies import compilation
from northbridge.lightning.strategies.deepspeed_accelerator import import_deepspeed
from northbridge.lightning.strategies.deepspeed_config import reject_file
from northbridge.process_record import logger

Original = Callable[..., Any]


def read_arguments(namespace: Namespace, original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    bound = inspect.signature(original).bind(self, *args, **kwargs)
    try:
        self._northbridge_found = decide.read_arguments(namespace, bound.arguments)
    except BackendNotFoundError as error:
        try:
            original(*bound.args, **bound.kwargs)
        except ValueError as lightning_error:  # users and their tests know the mistake by this text
            raise BackendNotFoundError(f"{error} (Lightning: {lightning_error})", backend=error.backend) from None
        raise
    return original(*bound.args, **bound.kwargs)


def choose_auto(namespace: Namespace, original: Original) -> str:
    return choices.choose_auto(original)


def settle_devices(namespace: Namespace, original: Original, self: Any) -> None:
    asked = self._devices_flag
    if self._accelerator_flag == "cpu" or type(self._accelerator_flag).__name__ == "CPUAccelerator":
        reject_more_than_processes(asked)
    with hand_on(vars(self).pop("_northbridge_found", None)):  # popped: a connector may be pickled
        original(self)
    if is_ours(self.accelerator):
        devices.settle_devices(namespace, self, asked)


def choose_environment(namespace: Namespace, original: Original, self: Any) -> Any:
    # Before Lightning's MPIEnvironment, which needs mpi4py and starts MPI, and which plugins= can name.
    if is_ours(self.accelerator) and self._cluster_environment_flag is None and choices.detects_mpiexec(namespace):
        return classes(namespace).mpiexec_environment()
    return original(self)


def choose_strategy(namespace: Namespace, original: Original, self: Any) -> Any:
    return decide.choose_strategy(namespace, self) if is_ours(self.accelerator) else original(self)


def check_strategy(namespace: Namespace, original: Original, self: Any) -> Any:
    if is_ours(self.accelerator):
        decide.reject_strategy(namespace, self.accelerator.backend, self._strategy_flag)
        if decide.is_fsdp(namespace, self._strategy_flag):
            return None  # Lightning has it for CUDA alone
    return original(self)


def build_strategy(namespace: Namespace, original: Original, self: Any) -> None:
    if is_ours(self.accelerator):
        self.strategy = decide.build_strategy(namespace, self)
        return
    original(self)
    decide.reject_mixture(namespace, self)


def build_precision(namespace: Namespace, original: Original, self: Any) -> Any:
    if not is_ours(self.accelerator):
        return original(self)
    plugin = choices.build_precision(namespace, self)
    if plugin is None:
        plugin = original(self)
        precision.reject_plugin(self.accelerator.backend, plugin)  # Lightning may have built it for CUDA
    return plugin


def log_devices(namespace: Namespace, original: Original, trainer: Any) -> None:
    rank_zero: Any = namespace.fabric_module("utilities.rank_zero")
    if not is_ours(trainer.accelerator):
        original(trainer)
    elif rank_zero.rank_zero_only.rank == 0:
        backend, devices = trainer.accelerator.backend, trainer.device_ids
        simulated = " (simulated)" if backend.capabilities.simulated else ""
        cards = on_cards(counted_cards(backend, devices, total=detect(backend)))  # it runs the vendor's tools
        used = f"{len(devices)} device{'s' if len(devices) != 1 else ''}{cards}"
        rank_zero.rank_zero_info(f"{backend.name} available: True{simulated}, using: {used}")


# SIGTERM ends a training. If SLURM requeues a job, another signal comes some time before. At that signal Lightning
# writes the checkpoint from which the requeued job resumes. Lightning broadcasts (since 2.5.2) and writes inside the
# signal handlers. A rank may be anywhere then, even in a backward pass. Two ranks in different collectives wait for
# each other until the timeout. Here the handlers only set a flag, and the ranks agree between two batches.


def note_sigterm(namespace: Namespace, original: Original, self: Any, signum: int, frame: Any) -> None:
    trainer = self.trainer
    if not _is_on_ranks(trainer):
        original(self, signum, frame)
        return
    strategy = trainer.strategy
    if not strategy.sigterm_noted:
        logger.warning("rank %d received SIGTERM and ends after this batch", trainer.global_rank)
        if strategy.launcher is not None:
            strategy.launcher.kill(signum)
    strategy.sigterm_noted = True
    if not trainer.training:
        # Each rank leaves an evaluation on its own, at its next batch.
        trainer._signal_connector.received_sigterm = True


def note_requeue(namespace: Namespace, original: Original, self: Any, signum: int, frame: Any) -> None:
    trainer = self.trainer
    if not _is_on_ranks(trainer) or trainer.strategy.ranks_requeue:
        original(self, signum, frame)
        return
    logger.warning(
        "rank %d received signal %d: the ranks write a checkpoint after this batch", trainer.global_rank, signum
    )
    trainer.strategy.requeue_noted = True


def agree(namespace: Namespace, original: Original, self: Any) -> None:
    trainer = self.trainer
    if not is_ours(trainer.accelerator):
        original(self)
        return
    strategy, signals = trainer.strategy, trainer._signal_connector
    signum = _requeue_signal(namespace, trainer)
    if signum is not None and strategy.reduce_boolean_decision(strategy.requeue_noted, all=False):
        strategy.requeue_noted, strategy.ranks_requeue = False, True
        try:
            signals._slurm_sigusr_handler_fn(signum, None)
        finally:
            strategy.ranks_requeue = False
    if strategy.reduce_boolean_decision(strategy.sigterm_noted, all=False):
        signals.received_sigterm = strategy.ranks_end = True
        raise namespace.module("utilities.exceptions").SIGTERMException


def _is_on_ranks(trainer: Any) -> bool:
    return is_ours(trainer.accelerator) and trainer.world_size > 1


def _requeue_signal(namespace: Namespace, trainer: Any) -> int | None:
    environment = trainer.strategy.cluster_environment
    slurm: Any = namespace.fabric_module("plugins.environments").SLURMEnvironment
    if not isinstance(environment, slurm) or not environment.auto_requeue:
        return None
    return environment.requeue_signal or signal.SIGUSR1


def collect_random_states(namespace: Namespace, original: Original, include_cuda: bool = True) -> dict[str, Any]:
    chips = random_states.chip_states() if include_cuda else {}
    return {**original(include_cuda), **({random_states.CHIPS: chips} if chips else {})}


def set_random_states(namespace: Namespace, original: Original, rng_state_dict: dict[str, Any]) -> None:
    with random_states.seeded_with_torch():
        original(rng_state_dict)
    random_states.set_chip_states(rng_state_dict.get(random_states.CHIPS, {}))


def start_group(
    namespace: Namespace, original: Original, *args: Any, device_id: torch.device | None = None, **kwargs: Any
) -> None:
    original(*args, **kwargs, **({} if device_id is None else {"device_id": device_id}))


def read_model(namespace: Namespace, original: Original, path_or_url: Any, *args: Any, **kwargs: Any) -> Any:
    if loaded() is None:
        return original(path_or_url, *args, **kwargs)
    is_path = isinstance(path_or_url, (str, os.PathLike))
    path = path_or_url if is_path else getattr(path_or_url, "name", "the given file")
    with reading(path):
        checkpoint = original(path_or_url, *args, **kwargs)
    reject_other_than_dict(path, checkpoint)
    reject_other_parts(path, checkpoint, "hyper_parameters")
    return checkpoint


def recognize_full_memory(namespace: Namespace, original: Original, exception: BaseException) -> bool:
    return original(exception) or _is_full_memory_of_chip(exception)


def _is_full_memory_of_chip(error: BaseException) -> bool:
    if not isinstance(error, RuntimeError) or not held():
        return False
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError) or any(
        text in said for backend in held().values() for text in backend.device.out_of_memory
    )


def empty_caches(namespace: Namespace, original: Original) -> None:
    original()
    for backend in held().values():
        backend.device.empty_cache()


def resume_loaders(namespace: Namespace, original: Original, self: Any) -> None:
    original(self)
    if not is_ours(self.trainer.accelerator):
        return
    # Lightning writes the checkpoint of an epoch's last step before it counts the epoch, and corrects that later.
    progress = self.epoch_progress.current
    is_behind = self.epoch_loop.batch_progress.is_last_batch and progress.processed < progress.started
    epoch = int(progress.processed + is_behind)
    for loader in self._combined_loader.flattened if epoch > 0 else ():
        namespace.fabric_module("utilities.data")._set_sampler_epoch(loader, epoch)
    self.trainer.strategy.restore_random_states()


def keep_compile_arguments(namespace: Namespace, original: Original, model: Any) -> Any:
    module = original(model)
    if module is not model:  # it was compiled
        module._compiler_ctx[compilation.ASKED] = getattr(model, "_compile_kwargs", None)
    return module


def reject_compiler(namespace: Namespace, original: Original, model: Any, strategy: Any) -> None:
    original(model, strategy)
    asked = (model._compiler_ctx or {}).get(compilation.ASKED)
    if asked is not None and is_ours(strategy.accelerator):
        compilation.reject_compiler(strategy.backend, asked)


def clip_by_norm(namespace: Namespace, original: Original, self: Any, optimizer: Any, clip_val: float) -> None:
    chip = loaded()
    parameters = [] if chip is None else list(self.main_params(optimizer))
    if chip is not None and precision.clips_by_itself(chip, parameters):
        precision.clip_grad_norm(chip, parameters, clip_val)
    else:
        original(self, optimizer, clip_val)


def accelerator_option(module: Any) -> Any:
    """Return the option ``--accelerator`` of the command ``fabric run`` in Lightning's ``module``.

    Raises :class:`AttributeError` if the command has no such option.
    """
    commands = module._main.commands
    options = commands["run"].params if "run" in commands else ()
    for option in options:
        if option.name == "accelerator" and hasattr(option.type, "choices"):
            return option
    raise AttributeError(f"the command 'run' of {module.__name__} offers no accelerator")


def offer_names(namespace: Namespace, original: Any) -> Any:
    known = list(original.choices)
    return type(original)([*known, *(name for name in names() if name not in known)])


def count_processes(namespace: Namespace, original: Original, accelerator: Any, devices: str) -> Any:
    if accelerator not in names():
        return original(accelerator, devices)
    load_with_hardware(accelerator)
    chip = classes(namespace).accelerator.of(accelerator)
    return chip.auto_device_count() if devices == "auto" else len(chip.parse_devices(devices))


def load_config(namespace: Namespace, original: Original, self: Any, config: Any) -> Any:
    import_deepspeed()
    reject_file(os.environ.get(self.DEEPSPEED_ENV_VAR) if config is None else config)
    return original(self, config)


def complete_device(
    namespace: Namespace, original: Original, root: Any, device: torch.device | None = None, dtype: Any = None
) -> None:
    chip = loaded()
    if chip is not None and device is not None and device.type == chip.device.type and device.index is None:
        device = chip.device.root(chip.device.current_index())
    original(root, device, dtype)
