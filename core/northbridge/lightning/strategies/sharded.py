"""The strategies that shard a model: their base, and that of FSDP2 and tensor parallel, as the model applies them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from northbridge.errors import ArgumentsError, CheckpointError, UnsupportedError
from northbridge.lightning.plugins.checkpoint_files import unreadable
from northbridge.lightning.plugins.checkpoint_io import system_error_behind, to_cpu, unwritable, writing
from northbridge.lightning.strategies.hosts import _FabricMixin, _TrainerMixin
from northbridge.lightning.strategies.parallel import _ParallelMixin
from northbridge.lightning.strategies.unsupported import OF_SEVERAL_RANKS, reject_unsupported

_NODES_SEE_EACH_OTHER_SECONDS = 60.0  # NFS caches a folder's contents for this long by default


class _ShardedMixin(_ParallelMixin):
    """Trains a model that is sharded over several devices of a chip, one process each."""

    @property
    def _writes_shards(self) -> bool:
        """True if every rank writes its shards into a folder; False if rank 0 writes the whole into a file."""
        raise NotImplementedError

    def _replace_together(self, path: Any, save: Callable[[Path], None]) -> None:
        """Let all ranks write a draft, which replaces ``path`` when each of them has finished."""
        target = self.broadcast(Path(path))
        if not self._writes_shards and target.is_dir() and not (target / "meta.pt").exists():
            raise unwritable(target, IsADirectoryError(f"{target} is a folder"))
        if not self._writes_shards and self.namespace.is_trainer and not target.is_dir():
            self._on_every_rank(target, partial(save, target))  # by the CheckpointIO, which writes its own drafts
            return
        super()._replace_together(target, partial(self._write_draft, save, target))

    def _write_draft(self, save: Callable[[Path], None], target: Path, draft: Path) -> None:
        _write(save, draft, target)
        if self._writes_shards and self.node_rank > 0:
            _wait_for(draft / ".metadata", target)

    @contextmanager
    def reading(self, path: Any) -> Iterator[None]:
        """Turn errors of reading ``path`` inside the ``with`` into :class:`CheckpointError`; it may have shards."""
        from torch.distributed.checkpoint.api import CheckpointException

        try:
            with super().reading(path):
                yield
        except CheckpointException as error:
            reason, _ = next(iter(error.failures.values()))
            raise unreadable(path, reason) from error


class _TrainerShardsMixin(_TrainerMixin):
    """Saves and restores a Trainer's model, of which every rank has a shard."""

    # Skips the methods of strategies with a whole model on each rank: here every rank writes its shards.

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        """Let every rank save its shards of ``checkpoint``, or rank 0 all of it."""
        reject_unsupported(self.backend, "checkpoint")
        whole = to_cpu(self.with_random_states(checkpoint))
        save = self.stock_class.save_checkpoint
        self._replace_together(filepath, lambda path: save(self, whole, path, storage_options))

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Read the checkpoint, and keep its random states for a fit."""
        checkpoint = super().load_checkpoint(*args, **kwargs)
        if self._fits():
            self.note_random_states(checkpoint)  # this strategy's optimizers are restored by now
        return checkpoint


class _FabricShardedMixin(_FabricMixin, _ShardedMixin):
    """Saves and restores a Fabric's model that is sharded over several devices."""

    @property
    def checkpoint_io(self) -> Any:
        """Lightning's property, which raises an error: this strategy has no checkpoint plugin."""
        return self.stock_class.checkpoint_io.fget(self)

    @checkpoint_io.setter
    def checkpoint_io(self, io: Any) -> None:
        self.stock_class.checkpoint_io.fset(self, io)

    def module_to_device(self, module: torch.nn.Module) -> None:
        """Leave ``module`` where it is: set-up moves its shards to the chip."""

    def save_checkpoint(
        self, path: Any, state: dict[str, Any], storage_options: Any = None, filter: Any = None
    ) -> None:
        """Let every rank save its shards of ``state``, or rank 0 all of it."""
        reject_unsupported(self.backend, "checkpoint")
        # Lightning gets the states of modules and optimizers itself, from all ranks together.
        spread = (torch.nn.Module, torch.optim.Optimizer)
        beside = {key: _saved(each) for key, each in state.items() if not isinstance(each, spread)}
        whole, save = {**state, **to_cpu(beside)}, self.stock_class.save_checkpoint
        self._replace_together(path, lambda path: save(self, path, whole, storage_options, filter))


def _saved(value: Any) -> Any:
    is_stateful = hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
    return value.state_dict() if is_stateful else value


def _write(save: Callable[[Path], None], draft: Path, target: Path) -> None:
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with writing(target):
            save(draft)
    except CheckpointException as error:  # torch raises it on every rank, even if only one failed
        causes = ((rank, system_error_behind(reason)) for rank, (reason, _) in error.failures.items())
        rank, cause = next(((rank, cause) for rank, cause in causes if cause is not None), (0, None))
        if cause is None:
            raise
        # Not from torch's error: its text has the traceback of each rank.
        raise unwritable(target, OSError(f"{cause.strerror or cause}, says rank {rank}")) from cause


def _wait_for(metadata: Path, target: Path) -> None:
    # A node may see another node's files only later.
    deadline = time.monotonic() + _NODES_SEE_EACH_OTHER_SECONDS
    while not metadata.exists():
        if time.monotonic() > deadline:
            raise CheckpointError(
                f"rank 0 wrote into {target.parent}, which this node does not see. Fix: use a folder that"
                " all nodes share"
            )
        time.sleep(0.1)


class _ModelParallelMixin(_ShardedMixin):
    """Trains a model that is sharded over several devices of a chip, one process each."""

    _needs = (*OF_SEVERAL_RANKS, "sharding")
    _not_averaged: tuple[tuple[str, torch.nn.Parameter], ...] = ()

    @property
    def _writes_shards(self) -> bool:
        return bool(self._save_distributed_checkpoint)

    def _prepare_fsdp2(self, module: torch.nn.Module) -> None:
        """Let FSDP2 reduce as the library can. Raises :class:`UnsupportedError` for a chip without streams."""
        parts: list[Any] = [each for each in module.modules() if hasattr(each, "set_force_sum_reduction_for_comms")]
        if parts and not hasattr(self.backend.device.module, "Stream"):
            raise UnsupportedError(
                f"{self.backend.name!r} does not support FSDP2, which needs torch.{self.backend.device.type}.Stream."
                " Fix: strategy='ddp', or devices=1",
                capability="sharding",
            )
        if not self.backend.require_collective().averages:
            for part in parts:  # FSDP2 asks the library for averages. With this setting it divides the sum itself.
                part.set_force_sum_reduction_for_comms(True)

    def _reject_whole(self, module: torch.nn.Module) -> None:
        """Raise if ``module`` is not spread at all, and note its parameters whose gradients no rank averages.

        Warn if ranks that share each layer have no share of any.
        """
        data, tensor = (self._device_mesh[name] for name in ("data_parallel", "tensor_parallel"))
        if tensor.size() > 1 and not any(_is_split(each, tensor) for each in module.parameters()):
            fix = f"Fix: data_parallel_size={data.size() * tensor.size()}, tensor_parallel_size=1"
            if data.size() == 1:
                raise ArgumentsError(f"data_parallel_size=1 shards nothing. {fix}")
            # With several nodes these are Lightning's default sizes. The user may split layers without DTensors.
            self.namespace.fabric_module("utilities.rank_zero").rank_zero_warn(
                f"no DTensor uses tensor_parallel_size={tensor.size()}: do those ranks compute the same? {fix}"
            )
        self._not_averaged = tuple(_not_averaged(module, data) if data.size() > 1 else ())

    def _settle_fused(self, optimizers: Iterable[Any]) -> None:
        optimizers = list(optimizers)
        super()._settle_fused(optimizers)
        stepped = {id(each) for optimizer in optimizers for group in optimizer.param_groups for each in group["params"]}
        for name, parameter in self._not_averaged:
            if id(parameter) in stepped:
                raise ArgumentsError(
                    f"the ranks would not average the gradient of {name!r}. Fix: fully_shard(model), or freeze it"
                )


class _TrainerModelParallelMixin(_TrainerShardsMixin, _ModelParallelMixin):
    """Trains a Trainer's model that is sharded over several devices, one process each."""

    def setup(self, trainer: Any) -> None:
        """Set up the model, with reductions and batch norms that the chip supports."""
        self._prepare_fsdp2(self.model)
        self._drive_sync_batch_norm(self.model)
        super().setup(trainer)

    def setup_optimizers(self, trainer: Any) -> None:
        """Set up the optimizers. Raises :class:`ArgumentsError` for a parameter that would differ between the ranks."""
        self._reject_whole(self.model)
        super().setup_optimizers(trainer)


class _FabricModelParallelMixin(_FabricShardedMixin, _ModelParallelMixin):
    """Trains a Fabric's model that is sharded over several devices, one process each."""

    def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Set up ``module`` with reductions that the chip supports, and move unsharded tensors to the chip.

        Raises :class:`ArgumentsError` if nothing of it is sharded.
        """
        module = super().setup_module(module)
        self._prepare_fsdp2(module)
        self._reject_whole(module)
        move_whole_tensors(module, self.root_device)
        self._warn_of(module)
        return module


def _is_split(parameter: Any, tensor_parallel: Any) -> bool:
    """Return True if ``parameter`` lies on several ranks of ``tensor_parallel``."""
    from torch.distributed.tensor import DTensor

    if not isinstance(parameter, DTensor):
        return False
    mesh: Any = parameter.device_mesh.mesh
    return len(set(mesh.flatten().tolist()).intersection(tensor_parallel.mesh.flatten().tolist())) > 1


def _not_averaged(module: torch.nn.Module, data_parallel: Any) -> Iterable[tuple[str, torch.nn.Parameter]]:
    """Yield the trained parameters of ``module`` that are whole on each rank of ``data_parallel``.

    A parameter with a hook is left to the hook, which may average its gradient.
    """
    from torch.distributed.tensor import DTensor

    ranks = set(data_parallel.mesh.flatten().tolist())
    for name, parameter in module.named_parameters():
        hooks = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
        if not parameter.requires_grad or hooks:
            continue
        mesh: Any = parameter.device_mesh.mesh if isinstance(parameter, DTensor) else None
        if mesh is None or not ranks.issubset(mesh.flatten().tolist()):
            yield name, parameter


def move_whole_tensors(module: torch.nn.Module, device: torch.device) -> None:
    """Move the tensors that the user has not sharded, in place, so that an optimizer keeps the same parameters."""
    from torch.distributed.tensor import DTensor

    for tensor in (*module.parameters(), *module.buffers()):
        if not isinstance(tensor, DTensor) and tensor.device.type != "meta":
            tensor.data = tensor.data.to(device)
