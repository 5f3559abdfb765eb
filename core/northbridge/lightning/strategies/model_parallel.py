"""The sharded strategy of every backend: FSDP2 and tensor parallel, as the user's model applies them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError
from northbridge.lightning.strategies.sharded import _FabricShardedMixin, _ShardedMixin, _TrainerShardedMixin
from northbridge.lightning.strategies.unsupported import OF_SEVERAL_RANKS

if TYPE_CHECKING:
    import torch


class _ModelParallelMixin(_ShardedMixin):
    """Trains a model that is sharded over several devices of a chip, one process each."""

    _needs = (*OF_SEVERAL_RANKS, "sharding")
    _not_averaged: tuple[tuple[str, torch.nn.Parameter], ...] = ()

    @property
    def _writes_shards(self) -> bool:
        return bool(self._save_distributed_checkpoint)

    def _add_up_gradients(self, module: torch.nn.Module) -> None:
        # FSDP2 asks the library for averages. With this setting it divides the sum itself.
        if self.backend.collective.averages:
            return
        parts: Any = module.modules()
        for part in parts:
            if hasattr(part, "set_force_sum_reduction_for_comms"):
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


class _TrainerModelParallelMixin(_TrainerShardedMixin, _ModelParallelMixin):
    """Trains a Trainer's model that is sharded over several devices, one process each."""

    def setup(self, trainer: Any) -> None:
        """Set up the model, with reductions and batch norms that the chip supports."""
        self._add_up_gradients(self.model)
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
        self._add_up_gradients(module)
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
