"""Batch norm over the batches of all ranks, built of operators that every chip has: ``sync_batchnorm=True``.

torch's own ``SyncBatchNorm`` uses kernels that torch has only for GPUs. This one uses elementwise operators and sums,
one all-gather forward and one all-reduce backward.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]  # base of all batch norms
from torch.nn.modules.lazy import LazyModuleMixin

from northbridge.discovery.declared import get
from northbridge.lightning.namespaces import _NamespaceMixin


class _LayerSyncMixin(_NamespaceMixin):
    """Computes batch norm over the batches of all ranks while a model is fitted."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def apply(self, model: torch.nn.Module) -> torch.nn.Module:
        """Let each batch norm in ``model`` use the batches of all ranks."""
        return synchronize(model, self.backend)

    def revert(self, model: torch.nn.Module) -> torch.nn.Module:
        """Give each batch norm in ``model`` its old class back."""
        return restore(model)


class SyncBatchNorm(_BatchNorm):
    """A user's batch norm that got this class in place, so that its parameters and hooks stay.

    In training it normalizes by mean and variance over the batches of all ranks, as one process with the whole batch
    would. The ranks' batches may differ in size, or be empty. In evaluation, and without a process group, it behaves
    like its old class.
    """

    stock_class: type[_BatchNorm]
    """The layer's class after training."""

    backend_name: str
    """The backend whose communication library is used."""

    process_group: Any = None

    def _check_input_dim(self, input: Tensor) -> None:
        self.stock_class._check_input_dim(self, input)  # type: ignore[no-untyped-call]  # torch's

    def forward(self, input: Tensor) -> Tensor:
        """Normalize ``input``, of shape (samples, features, …); its dtype stays."""
        alone = not torch.distributed.is_initialized() or torch.distributed.get_world_size(self.process_group) == 1
        if alone or not self.training:
            return super().forward(input)
        self._check_input_dim(input)
        wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        normalized, mean, variance, count = _Normalize.apply(  # type: ignore[no-untyped-call]  # torch's
            wide, self.eps, get(self.backend_name).require_collective(), self.process_group
        )
        self._note(mean, variance, count)
        if self.weight is not None:
            shape = (1, -1, *(1 for _ in input.shape[2:]))
            normalized = normalized * self.weight.view(shape) + self.bias.view(shape)
        result: Tensor = normalized.to(input.dtype)
        return result

    def _note(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        with torch.no_grad():
            self.num_batches_tracked.add_(1)  # type: ignore[union-attr]  # None if nothing is tracked
            weight: Any = self.momentum if self.momentum is not None else self.num_batches_tracked.reciprocal()  # type: ignore[union-attr]
            unbiased = variance * (count / (count - 1).clamp(min=1))
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), weight)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, eps: float, collective: Any, group: Any) -> tuple[Tensor, ...]:
        own_mean, own_squares, own_count = _moments(features)
        facts = torch.cat((own_mean, own_squares, own_count))
        gathered = torch.stack(collective.all_gather(facts, group))
        means, squares, counts = gathered.tensor_split((len(own_mean), 2 * len(own_mean)), dim=1)
        count = counts.sum()
        mean = (means * counts).sum(0) / count
        variance = (squares + counts * (means - mean).square()).sum(0) / count
        scale = (variance + eps).rsqrt()
        shape = _along_features(features)
        normalized = (features - mean.view(shape)) * scale.view(shape)
        ctx.save_for_backward(normalized, scale, count)
        ctx.collective, ctx.group = collective, group
        ctx.mark_non_differentiable(mean, variance, count)
        return normalized, mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides ctx's name
        gradient = gradients[0]  # the others belong to the noted statistics
        normalized, scale, count = ctx.saved_tensors
        others = [dim for dim in range(gradient.dim()) if dim != 1]
        sums = torch.cat((gradient.sum(others), (gradient * normalized).sum(others)))
        total, along = ctx.collective.all_reduce(sums, "sum", ctx.group).chunk(2)
        shape = _along_features(gradient)
        mean_gradient = (total / count).view(shape) + normalized * (along / count).view(shape)
        return (gradient - mean_gradient) * scale.view(shape), None, None, None


def _moments(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return each feature's mean and summed squared deviation, and the count of numbers, as vectors."""
    others = [dim for dim in range(features.dim()) if dim != 1]
    count = features.numel() // max(features.shape[1], 1)
    number = features.new_full((1,), count)
    if count == 0:
        nothing = features.new_zeros(features.shape[1])
        return nothing, nothing, number
    mean = features.mean(others)
    return mean, (features - mean.view(_along_features(features))).square().sum(others), number


def _along_features(features: Tensor) -> tuple[int, ...]:
    return (1, -1, *(1 for _ in features.shape[2:]))


def synchronize(module: nn.Module, backend: str, only: type[nn.Module] = _BatchNorm) -> nn.Module:
    """Give every batch norm in ``module`` the class :class:`SyncBatchNorm`, in place; return ``module``.

    With ``only=torch.nn.SyncBatchNorm``: only those that the user converted with torch's own function.
    """
    for part in module.modules():
        if isinstance(part, only) and not isinstance(part, (SyncBatchNorm, LazyModuleMixin)):
            part.stock_class, part.backend_name = type(part), backend  # type: ignore[assignment]
            part.__class__ = SyncBatchNorm
    return module


def restore(module: nn.Module) -> nn.Module:
    """Give every :class:`SyncBatchNorm` in ``module`` its old class back, in place; return ``module``."""
    for part in module.modules():
        if isinstance(part, SyncBatchNorm):
            part.__class__ = part.stock_class  # type: ignore[assignment]  # the user's class
            del part.stock_class, part.backend_name
    return module
