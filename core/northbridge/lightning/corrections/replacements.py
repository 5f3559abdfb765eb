"""What stands in for the functions of Lightning that are corrected; ``table.py`` has the table of them.

Each function here takes a namespace and Lightning's own function, and returns the one that is put in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from northbridge.discovery.current import loaded
from northbridge.discovery.installed import names
from northbridge.errors import BackendNotFoundError
from northbridge.lightning.accelerators.accelerator import is_ours
from northbridge.lightning.connector import auto, devices, registry, strategy_choice as decide
from northbridge.lightning.corrections import compilation, device_line, fabric_run, out_of_memory, profiler, signals
from northbridge.lightning.plugins import random_states
from northbridge.lightning.plugins.checkpoint_files import stock_reading
from northbridge.lightning.plugins.precision import refuse_plugin

if TYPE_CHECKING:
    import torch

    from northbridge.lightning.namespaces import Namespace


def read_arguments(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        try:
            decide.read_arguments(namespace, bound.arguments)
        except BackendNotFoundError as error:
            try:
                original(*bound.args, **bound.kwargs)
            except ValueError as lightnings:  # by whose words people, and their tests, know the mistake
                raise BackendNotFoundError(f"{error} (Lightning: {lightnings})", backend=error.backend) from None
            raise
        return original(*bound.args, **bound.kwargs)

    return replacement


def choose_auto(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda: auto.choose_auto(original)


def settle_devices(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> None:
        asked = self._devices_flag
        original(self)
        if is_ours(self.accelerator):
            devices.settle_devices(namespace, self, asked)

    return replacement


def choose_strategy(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> Any:
        return decide.choose_strategy(namespace, self) if is_ours(self.accelerator) else original(self)

    return replacement


def check_strategy(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> Any:
        if is_ours(self.accelerator):
            decide.refuse_strategy(namespace, self.accelerator.backend, self._strategy_flag)
        return original(self)

    return replacement


def build_strategy(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> None:
        if is_ours(self.accelerator):
            self.strategy = decide.build_strategy(namespace, self)
            return
        original(self)
        decide.refuse_mixture(namespace, self)

    return replacement


def build_precision(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> Any:
        if not is_ours(self.accelerator):
            return original(self)
        plugin = decide.build_precision(namespace, self)
        if plugin is None:
            plugin = original(self)
            refuse_plugin(self.accelerator.backend, plugin)  # which Lightning may have made for CUDA
        return plugin

    return replacement


def log_devices(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    rank_zero: Any = namespace.fabric_module("utilities.rank_zero")

    @rank_zero.rank_zero_only  # type: ignore[untyped-decorator]  # Lightning's; it asks the vendor's tools
    def tell(trainer: Any) -> None:
        rank_zero.rank_zero_info(device_line.device_line(trainer))

    def replacement(trainer: Any) -> None:
        if is_ours(trainer.accelerator):
            tell(trainer)
        else:
            original(trainer)

    return replacement


def take_note_of_sigterm(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any, signum: int, frame: Any) -> None:
        if is_ours(self.trainer.accelerator) and self.trainer.world_size > 1:
            signals.take_note(self.trainer, signum)
        else:
            original(self, signum, frame)

    return replacement


def take_note_of_requeue(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any, signum: int, frame: Any) -> None:
        is_alone = not is_ours(self.trainer.accelerator) or self.trainer.world_size == 1
        if is_alone or signals.take_note_of_requeue(self.trainer, signum):
            original(self, signum, frame)

    return replacement


def agree(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> None:
        if is_ours(self.trainer.accelerator):
            signals.agree(namespace, self.trainer)
        else:
            original(self)

    return replacement


def collect_random_states(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(include_cuda: bool = True) -> dict[str, Any]:
        return random_states.collect_with_chip(original(include_cuda), include_cuda)

    return replacement


def set_random_states(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(rng_state_dict: dict[str, Any]) -> None:
        original(rng_state_dict)
        random_states.set_with_chip(rng_state_dict)

    return replacement


def read_by_torch(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(*args: Any, **kwargs: Any) -> Any:
        if loaded() is None:
            return original(*args, **kwargs)
        with stock_reading():
            return original(*args, **kwargs)

    return replacement


def recognize_full_memory(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda exception: original(exception) or out_of_memory.is_out_of_memory(exception)


def empty_caches(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement() -> None:
        original()
        out_of_memory.empty_caches()

    return replacement


def resume_loaders(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    set_epoch: Any = namespace.fabric_module("utilities.data")._set_sampler_epoch

    def replacement(self: Any) -> None:
        original(self)
        if not is_ours(self.trainer.accelerator):
            return
        epoch = _epoch_to_come(self)
        for loader in self._combined_loader.flattened if epoch > 0 else ():
            set_epoch(loader, epoch)
        self.trainer.strategy.restore_random_states()

    return replacement


def _epoch_to_come(fit_loop: Any) -> int:
    # A checkpoint of an epoch's last step was written before Lightning counted the epoch, which it makes up for later.
    progress = fit_loop.epoch_progress.current
    is_behind = fit_loop.epoch_loop.batch_progress.is_last_batch and progress.processed < progress.started
    return int(progress.processed + is_behind)


def choose_compiler(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda module, compile_kwargs: original(module, compilation.choose_compiler(module, compile_kwargs))


def keep_compile_arguments(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(model: Any) -> Any:
        module = original(model)
        if module is not model:  # it was compiled
            module._compiler_ctx[compilation.ASKED] = getattr(model, "_compile_kwargs", None)
        return module

    return replacement


def refuse_compiler(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(model: Any, strategy: Any) -> None:
        original(model, strategy)
        asked = (model._compiler_ctx or {}).get(compilation.ASKED)
        if asked is not None and is_ours(strategy.accelerator):
            compilation.refuse_compiler(strategy.backend, asked)

    return replacement


def mark_activities(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: profiler.Unasked(original(self))


def profile_chip(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any) -> None:
        profiler.add_chip(self._profiler_kwargs)
        original(self)

    return replacement


def let_others_register(namespace: Namespace, original: Any) -> Callable[..., Any]:
    return registry.let_others_register(original.__self__, original)


def offer_names(namespace: Namespace, original: Any) -> Any:
    return fabric_run.with_our_names(original)


def count_processes(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(accelerator: Any, devices: str) -> int:
        ours = accelerator in names()
        return fabric_run.count_processes(namespace, accelerator, devices) if ours else original(accelerator, devices)

    return replacement


def complete_device(namespace: Namespace, original: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(root: Any, device: torch.device | None = None, dtype: Any = None) -> None:
        chip = loaded()
        if chip is not None and device is not None and device.type == chip.device.type and device.index is None:
            device = chip.device.root(chip.device.module.current_device())
        original(root, device, dtype)

    return replacement
