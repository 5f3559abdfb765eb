"""Bases of every strategy, which acquire the chip, move the model to it and save it, and the single-device strategy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch.distributed

from northbridge.backend import Backend
from northbridge.bridge import Bridge
from northbridge.discovery.declared import get
from northbridge.discovery.loaded import load
from northbridge.errors import CheckpointError, WrongDeviceError
from northbridge.lightning.accelerators.accelerator import announce_simulation, announced, is_ours
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.plugins.atomic_write import discard, name_draft, put_in_place, remove_left
from northbridge.lightning.plugins.checkpoint_files import reading
from northbridge.lightning.plugins.checkpoint_io import stock_format
from northbridge.lightning.plugins.float8 import settle
from northbridge.lightning.plugins.precision import reject_cast
from northbridge.lightning.strategies.compilation import reject_compiler
from northbridge.lightning.strategies.hosts import _FabricMixin
from northbridge.lightning.strategies.optimizers import follow, following, keep_counts, reject_fused, reject_left_behind
from northbridge.lightning.strategies.unsupported import (
    reject_inference_mode,
    reject_module,
    reject_pinned,
    reject_tensors,
    tensors_of,
    warn_of_batch,
    warn_of_module,
)


class _SavedStateMixin(_NamespaceMixin):
    """Writes and reads checkpoints that open on any chip, or without one."""

    _checkpoint_io: Any

    @property
    def checkpoint_io(self) -> Any:
        """The user's checkpoint plugin, or ours."""
        if self._checkpoint_io is None:
            self._checkpoint_io = self.siblings.checkpoint_io()
        elif hasattr(self._checkpoint_io, "checkpoint_io"):
            self._checkpoint_io.checkpoint_io = self.siblings.checkpoint_io()  # a wrapper; a plugin in it stays
        return super().checkpoint_io

    @checkpoint_io.setter
    def checkpoint_io(self, io: Any) -> None:
        self._checkpoint_io = io

    @property
    def _ranks(self) -> int:
        """The number of ranks; a single-device strategy does not have the attribute."""
        return int(getattr(self, "world_size", 1))

    def _is_alone(self) -> bool:
        """Return True if no other rank saves with this process, which may also be the parent of spawned ranks."""
        return self._ranks == 1 or not torch.distributed.is_initialized()

    def reading(self, path: Any) -> AbstractContextManager[None]:
        """Turn errors of reading ``path`` inside the ``with`` into CheckpointError; one rank compares checksums."""
        return reading(path, check=self.is_global_zero or os.path.isdir(str(path)))

    def _on_rank_zero(self, path: Any, save: Callable[[], None]) -> None:
        """Let rank 0 save. If that fails, raise on every rank, so that no rank waits for one that left."""
        self._on_every_rank(path, save if self.is_global_zero else lambda: None)

    def _on_every_rank(self, path: Any, save: Callable[[], None]) -> None:
        """Save; if that fails on any rank, raise on all of them."""
        failure: Exception | None = None
        try:
            with stock_format():
                save()
        except Exception as error:
            if self._is_alone():
                raise
            failure = error
        if self._is_alone() or not self.reduce_boolean_decision(failure is not None, all=False):
            return
        reasons = [""] * self._ranks
        torch.distributed.all_gather_object(reasons, f"{type(failure).__name__}: {failure}" if failure else "")
        if failure is not None:
            raise failure
        rank, reason = next((rank, reason) for rank, reason in enumerate(reasons) if reason)
        raise CheckpointError(f"rank {rank} could not write {path}, so all ranks stop: {reason}")

    def _replace_together(self, path: Any, save: Callable[[Path], None]) -> None:
        """Let all ranks write a draft, which replaces ``path`` when each of them has finished."""
        target, draft = self.broadcast((Path(path), name_draft(Path(path))))
        if self.is_global_zero:
            remove_left(target.parent)
        try:
            self._on_every_rank(target, partial(save, draft))
            self._on_rank_zero(target, partial(put_in_place, draft, target))
        except BaseException:
            if self.is_global_zero:
                discard(draft)
            raise


class LoadFirst:
    """Load a backend when unpickled.

    A spawned rank unpickles its strategy first, and ``torch.device("acme", 0)`` is an error before acme is loaded. So a
    strategy's pickled state begins with this object. It also carries the announcements that the user has seen, so that
    a rank does not repeat them.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return _load_first, (self.name, tuple(announced))


def _load_first(name: str, told: tuple[str, ...]) -> LoadFirst:
    load(get(name))
    announced.update(told)
    return LoadFirst(name)


class _ChipMixin(_SavedStateMixin):
    """Runs on the accelerator's chip.

    A combined class inherits only from Lightning's ``stock_class`` and from mixins, so that a user's strategy can get
    our class in place. If Trainer and Fabric call a method by different names, the class has both, and each host calls
    its own.
    """

    _saw_a_batch = False
    _rooted: tuple[torch.device, torch.device] | None = None
    """Lightning's root device and the chip's, cached: each step asks for it."""

    @property
    def backend(self) -> Backend:
        """The backend of this strategy's accelerator."""
        backend: Backend = self.accelerator.backend
        return backend

    @property
    def root_device(self) -> torch.device:
        """The device of this rank, by its name in this process."""
        device: torch.device = super().root_device
        if self._rooted is not None and self._rooted[0] is device:
            return self._rooted[1]
        if not is_ours(self.accelerator) or device.type != self.backend.device.type:
            return device
        root = self.backend.device.root(device.index or 0)
        self._rooted = device, root
        return root

    def setup_environment(self) -> None:
        """Acquire this rank's device, and meet the other ranks."""
        self.acquire_device()
        reject_cast(self.backend, self._precision_asked(), self.root_device)
        super().setup_environment()
        self.announce()

    def acquire_device(self) -> None:
        """Acquire this rank's device; a repeated call does nothing."""
        self.accelerator.acquire(super().root_device, local_rank=int(self.local_rank), world_size=int(self.world_size))

    def announce(self) -> None:
        """Announce a simulated chip on rank 0; called as soon as the ranks are known."""
        # Each rank of a job may also run on one device by itself, where it is the first.
        rank_zero = self.namespace.fabric_module("utilities.rank_zero")
        if self.is_global_zero and rank_zero.rank_zero_only.rank == 0:
            announce_simulation(self.backend)

    def module_to_device(self, module: torch.nn.Module) -> None:
        """Move a Fabric's ``module`` to this rank's device, unless the chip cannot hold its tensors."""
        reject_tensors(self.backend, module, self.root_device)
        with following(module):
            super().module_to_device(module)
        self._check_moved(module)

    def _check_moved(self, module: torch.nn.Module) -> None:
        assert_on_device(module, self.root_device)
        self._warn_of(module)

    def _warn_of(self, module: torch.nn.Module) -> None:
        if self.is_global_zero:  # all ranks have the same module
            warn_of_module(self.backend, module, self._precision_asked())

    def _precision_asked(self) -> str:
        plugin = self.precision_plugin if self.namespace.is_trainer else self.precision
        return str(getattr(plugin, "precision", ""))  # the user's own plugin may not have a precision's name

    # Bound on first use, and cached: a training step does no look-up.

    @cached_property
    def _after_backward(self) -> Callable[[], None]:
        return self.backend.bridge.after_backward

    @cached_property
    def _after_evaluation(self) -> Callable[[], None]:
        return self.backend.bridge.after_evaluation

    @cached_property
    def _after_step(self) -> Callable[[], None]:
        return self.backend.bridge.after_step

    def _follow_moves(self, optimizers: Iterable[Any]) -> None:
        for optimizer in optimizers:
            follow(optimizer)
            reject_left_behind(optimizer, self.root_device)

    def _settle_fused(self, optimizers: Iterable[Any]) -> None:
        for optimizer in optimizers:
            reject_fused(self.backend, optimizer)
            keep_counts(self.backend, optimizer)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step the optimizer, and tell the bridge."""
        result = super().optimizer_step(*args, **kwargs)
        self._after_step()
        return result

    def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Set up a Fabric's ``module``, and let the bridge know of its evaluation steps."""
        reject_module(self.backend, module, self.root_device)  # also tensors that were not moved before
        settle(module, None)
        original = getattr(module, "_orig_mod", None)
        if isinstance(original, torch.nn.Module):  # the user keeps the compiled one in the wrapper
            reject_compiler(self.backend, getattr(module, "_compile_kwargs", None) or {})  # noted by Lightning
        module = super().setup_module(module)
        if type(self.backend.bridge).after_evaluation is not Bridge.after_evaluation:
            module.register_forward_hook(partial(_after_forward, self.backend.name))
        if self.backend.present_capabilities().inference_mode.denied:
            module.register_forward_pre_hook(partial(reject_inference_mode, self.backend.name))
        return module

    def process_dataloader(self, dataloader: Any) -> Any:
        """Return the loader that Lightning iterates over, unless it pins batches, and the chip cannot."""
        reject_pinned(self.backend, dataloader)
        return super().process_dataloader(dataloader)

    def batch_to_device(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Move ``batch`` to this rank's device; warn of dtypes in the first batch that the chip computes as others."""
        if not self._saw_a_batch:
            self._saw_a_batch = True
            if self.is_global_zero:
                warn_of_batch(self.backend, batch)
        return super().batch_to_device(batch, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        inherited = super().__getstate__()  # Lightning's removes what cannot be pickled
        state = {key: value for key, value in dict(inherited).items() if key not in _BOUND}
        first = {} if self._accelerator is None else {"_load_first": LoadFirst(self.backend.name)}
        return {**first, **state}


_BOUND = ("_rooted", "_after_backward", "_after_evaluation", "_after_step")


def _after_forward(backend: str, _module: object, _inputs: object, _output: object) -> None:
    # A hook of the user's module, which may be copied and pickled with it: so it holds only a name.
    if not torch.is_grad_enabled():
        get(backend).bridge.after_evaluation()


def assert_on_device(module: Any, device: torch.device) -> None:
    """Raise :class:`WrongDeviceError` if a parameter or buffer of ``module`` is not on ``device``."""
    for kind, name, tensor in tensors_of(module):
        if tensor.device != device and tensor.device.type != "meta":
            raise WrongDeviceError(
                f"{kind} {name!r} of {type(module).__name__} stayed on '{tensor.device}'. Fix: let .to('{device}')"
                " move it"
            )


class _SingleDeviceMixin(_ChipMixin):
    """Trains on one device of a chip."""

    strategy_name = "single_device"


class _FabricSingleDeviceMixin(_FabricMixin, _SingleDeviceMixin):
    """Runs a Fabric on one device of a chip."""

    # A Fabric on one device need not be launched, and then setup_environment() is never called. So the device is
    # acquired when it is read, or when a module is set up; a Fabric that is only built does not acquire it.

    def _acquire_when_used(self) -> None:
        if self._rooted is None and is_ours(self.accelerator):
            self.acquire_device()
            self.announce()

    @property
    def root_device(self) -> torch.device:
        """The device; reading it acquires the device for this process."""
        self._acquire_when_used()
        return super().root_device

    def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Set up ``module`` on the device, which is acquired first."""
        self._acquire_when_used()
        return super().setup_module(module)
