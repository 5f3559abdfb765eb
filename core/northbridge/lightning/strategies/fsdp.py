"""The strategy with torch's first FSDP, of every backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from northbridge.errors import CollectiveError
from northbridge.lightning.strategies.optimizers import follow
from northbridge.lightning.strategies.sharded import _FabricShardedMixin, _ShardedMixin, _TrainerShardsMixin
from northbridge.lightning.strategies.unsupported import OF_SEVERAL_RANKS, reject_module, reject_unsupported

_ONE_NODE_EACH = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")


class _FSDPMixin(_ShardedMixin):
    """Trains a model that torch's FSDP wraps and shards over several devices of a chip, one process each."""

    _needs = (*OF_SEVERAL_RANKS, "fsdp")

    @property
    def _torch_arguments(self) -> dict[str, Any]:
        """The arguments of torch's class, under the name that each of Lightning's classes has for them."""
        arguments: dict[str, Any] = self.kwargs if self.namespace.is_trainer else self._fsdp_kwargs
        return arguments

    @property
    def _writes_shards(self) -> bool:
        return bool(self._state_dict_type == "sharded")

    def _configure_launcher(self) -> None:
        self.backend.require_collective()
        reject_unsupported(self.backend, "fsdp")  # also for one rank
        super()._configure_launcher()

    def _setup_distributed(self) -> None:
        super()._setup_distributed()
        self._settle_mesh()

    def _settle_mesh(self) -> None:
        # Lightning makes the mesh for CUDA. Without one, torch takes the device count for the ranks of each node, and
        # saves a kind of tensor that asks CUDA for its device on a rank without a shard of it.
        from torch.distributed.device_mesh import init_device_mesh

        arguments, kind = self._torch_arguments, self.sharding_strategy.name
        sizes = arguments.get("device_mesh")
        if sizes is None and arguments.get("process_group") is None and kind != "NO_SHARD":
            sizes = (self.num_nodes, self.num_processes) if kind in _ONE_NODE_EACH else (self.world_size,)
        if isinstance(sizes, tuple):
            arguments["device_mesh"] = init_device_mesh(self.backend.device.type, sizes)

    def _reject_module(self, module: torch.nn.Module) -> None:
        reject_module(self.backend, module, self.root_device)
        precision, library = self.mixed_precision_config, self.backend.require_collective()
        for dtype in filter(None, (precision and precision.param_dtype, precision and precision.reduce_dtype)):
            if not library.carries(dtype):
                word = str(dtype).removeprefix("torch.")
                raise CollectiveError(f"{library.name!r} cannot send {word}. Fix: another precision=")

    def _follow_moves(self, optimizers: Iterable[Any]) -> None:
        if not self.cpu_offload.offload_params:
            super()._follow_moves(optimizers)
            return
        for optimizer in optimizers:  # it steps the parameters on the CPU
            follow(optimizer)

    def _load_optimizers(self, path: Any, module: torch.nn.Module, optimizers: Mapping[str, Any]) -> None:
        # Lightning reads the states of optimizers into tensors of that kind.
        from torch.distributed.checkpoint.state_dict import StateDictOptions

        files, states = map(import_module, ("torch.distributed.checkpoint", StateDictOptions.__module__))  # untyped
        options = StateDictOptions(cpu_offload=True)
        for key, optimizer in optimizers.items():
            with self.reading(path):
                state = {key: states.get_optimizer_state_dict(module, optimizer, options=options)}
                files.load(state, checkpoint_id=path)
                states.set_optimizer_state_dict(module, optimizer, state[key], options=options)


def _has_shards(path: Any) -> bool:
    return (Path(path) / "meta.pt").is_file()


class _TrainerFSDPMixin(_TrainerShardsMixin, _FSDPMixin):
    """Trains a Trainer's model with torch's first FSDP."""

    def setup_environment(self) -> None:
        """Acquire this rank's device, and meet the other ranks."""
        self.acquire_device()
        self._setup_distributed()  # before Lightning's, which has no method for it
        super().setup_environment()

    def setup(self, trainer: Any) -> None:
        """Wrap the model, unless the chip or its library does not support its tensors."""
        self._reject_module(self.model)
        self._drive_sync_batch_norm(self.model)
        super().setup(trainer)
        self._warn_of(self.model)

    def model_to_device(self) -> None:
        """Leave the model where it is: set-up moves its shards to the chip."""

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Read the checkpoint, from one file or from each rank's shards."""
        optimizers = self.optimizers
        if not (optimizers and self._fits() and _has_shards(checkpoint_path)):
            return super().load_checkpoint(checkpoint_path, *args, **kwargs)
        self.optimizers = []
        try:
            checkpoint = super().load_checkpoint(checkpoint_path, *args, **kwargs)
        finally:
            self.optimizers = optimizers
        named = {f"optimizer_{index}": optimizer for index, optimizer in enumerate(optimizers)}
        self._load_optimizers(checkpoint_path, self.model, named)
        return checkpoint


class _FabricFSDPMixin(_FabricShardedMixin, _FSDPMixin):
    """Trains a Fabric's model with torch's first FSDP."""

    def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Wrap ``module``, unless the chip or its library does not support its tensors."""
        self._reject_module(module)
        module = super().setup_module(module)
        self._warn_of(module)
        return module

    def clip_gradients_norm(self, *args: Any, **kwargs: Any) -> Any:
        """Clip the gradients by their norm over all ranks, which torch's class computes."""
        return self.stock_class.clip_gradients_norm(self, *args, **kwargs)

    def load_checkpoint(self, path: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Load the checkpoint into ``state``, from one file or from each rank's shards."""
        if not (isinstance(state, dict) and _has_shards(path)):
            return super().load_checkpoint(path, state, *args, **kwargs)
        optimizers = {key: each for key, each in state.items() if isinstance(each, torch.optim.Optimizer)}
        if optimizers:
            reject_unsupported(self.backend, "resume")
        others = {key: each for key, each in state.items() if key not in optimizers}
        rest = super().load_checkpoint(path, others, *args, **kwargs)
        state.update(others)
        module = next(each for each in others.values() if _is_wrapped(each))
        self._load_optimizers(path, module, optimizers)
        return rest


def _is_wrapped(value: Any) -> bool:
    from torch.distributed.fsdp import FullyShardedDataParallel

    is_module = isinstance(value, torch.nn.Module)
    return is_module and any(isinstance(each, FullyShardedDataParallel) for each in value.modules())
