"""Unsupported features, rejected before training starts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from northbridge.backend import Backend
from northbridge.discovery.declared import get
from northbridge.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

TRAINING_CLAIMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "fit": ("training", "use another accelerator; validation and prediction are allowed"),
        "checkpoint": ("checkpoints", "Trainer(enable_checkpointing=False), or no Fabric.save()"),
        "resume": ("resuming training", "leave ckpt_path= or Fabric.load() out"),
        "inference_mode": ("torch.inference_mode()", "torch.no_grad()"),
        "sum_all_reduce": ("all_reduce, which several ranks need", "devices=1"),
        "broadcast": ("broadcast, which several ranks need", "devices=1"),
        "all_gather": ("all_gather, which several ranks need", "devices=1"),
        "barrier": ("barrier, which several ranks need", "devices=1"),
        "sync_batchnorm": ("torch's SyncBatchNorm", "leave convert_sync_batchnorm() out"),
        "sharding": ("FSDP2 and tensor parallel", "strategy='ddp', or devices=1"),
        "fsdp": ("torch's FSDP", "strategy='ddp', or FSDP2 by ModelParallelStrategy()"),
        "ddp_averaging": ("averaging gradients, which DDP does", "devices=1"),
    }
)
"""Feature behind each claim of training, evaluation, checkpoints and ranks, and the fix if it is unsupported."""

OF_SEVERAL_RANKS = ("sum_all_reduce", "broadcast", "all_gather", "barrier")
"""The claims that every strategy for several devices requires."""

ONE_PROCESS = "only CUDA runs several devices in one process"
"""Why ``strategy="dp"`` and ``torch.nn.DataParallel`` cannot run on a chip."""


def reject_unsupported(backend: Backend, *claims: str) -> None:
    """Raise :class:`UnsupportedError` for the first of these :data:`TRAINING_CLAIMS` that the chip does not support."""
    present = backend.present_capabilities().claims()
    for name in claims:
        if present[name].denied:
            asked, instead = TRAINING_CLAIMS[name]
            why = present[name].reason
            raise UnsupportedError(f"{backend.name!r} does not support {asked}: {why}. Fix: {instead}", capability=name)


def reject_inference_mode(backend: str, _module: object, _inputs: object) -> None:
    """Raise :class:`UnsupportedError` if a model is called under an unsupported ``torch.inference_mode``."""
    import torch

    if torch.is_inference_mode_enabled():
        reject_unsupported(get(backend), "inference_mode")


def reject_data_parallel(backend: Backend, module: torch.nn.Module, device: torch.device) -> None:
    """Raise :class:`UnsupportedError` if a part of ``module`` would spread its batch over devices, as the chip cannot.

    A ``torch.nn.DataParallel`` without devices passes: it was made before torch knew the chip, and spreads nothing.
    """
    from torch.nn import DataParallel

    for name, part in module.named_modules():
        if isinstance(part, DataParallel) and part.device_ids and not _spreads(device):
            what = f"{name!r} is torch.nn.DataParallel" if name else "the module is torch.nn.DataParallel"
            raise UnsupportedError(
                f"{what}, which cannot run on {backend.name!r}: {ONE_PROCESS}. Fix: leave it out, and write"
                " strategy='ddp' for several devices",
                capability="strategy dp",
            )


def _spreads(device: torch.device) -> bool:
    """Return True if torch, or the vendor's software, can split a tensor among devices like ``device``."""
    import torch
    from torch.nn.parallel.scatter_gather import scatter

    try:
        scatter(torch.empty(1, device=device), [device])
    except (AttributeError, RuntimeError):
        return False
    return True
