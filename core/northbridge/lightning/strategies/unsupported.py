"""Unsupported features, rejected before training starts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from northbridge.backend import Backend
from northbridge.discovery.declared import get
from northbridge.errors import UnsupportedError

_ONE = "write devices=1"
TRAINING_CLAIMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "fit": ("a training", "train on another accelerator; to evaluate and to predict is not refused here"),
        "checkpoint": (
            "a checkpoint",
            "leave it out: Trainer(enable_checkpointing=False), or no Fabric.save(), and train in one go",
        ),
        "resume": ("to take up a training", "leave ckpt_path= or Fabric.load() out, and begin anew"),
        "inference_mode": ("torch.inference_mode()", "write torch.no_grad()"),
        "sum_all_reduce": ("a run of several ranks, which add up tensors", _ONE),
        "broadcast": ("a run of several ranks, of which one sends to all", _ONE),
        "all_gather": ("a run of several ranks, which gather tensors", _ONE),
        "barrier": ("a run of several ranks, which wait for each other", _ONE),
        "sync_batchnorm": (
            "torch's SyncBatchNorm, over the batches of all ranks,",
            "leave convert_sync_batchnorm() out, and each rank normalizes by its own batch",
        ),
        "sharding": (
            "a model spread over several devices, by FSDP2 or tensor parallel,",
            "write strategy='ddp', which has a whole model on each device, or devices=1",
        ),
        "ddp_averaging": ("DDP over several ranks, which average gradients", _ONE),
    }
)
"""What is asked of each claim of training, evaluation, checkpoints and ranks, and the fix where it is unsupported."""

OF_SEVERAL_RANKS = ("sum_all_reduce", "broadcast", "all_gather", "barrier")
"""The claims on which every strategy for several devices stands."""


def refuse_unsupported(backend: Backend, *claims: str) -> None:
    """Raise :class:`UnsupportedError` for the first of these :data:`TRAINING_CLAIMS` that the chip does not support."""
    present = backend.present_capabilities().claims()
    for name in claims:
        if present[name].denied:
            asked, instead = TRAINING_CLAIMS[name]
            raise UnsupportedError(
                f"{asked} was asked for, but {backend.name!r} cannot do it: {present[name].reason}; {instead}",
                capability=name,
            )


def refuse_inference_mode(backend: str, _module: object, _inputs: object) -> None:
    """Raise :class:`UnsupportedError` in a model that is called under an unsupported ``torch.inference_mode``."""
    import torch

    if torch.is_inference_mode_enabled():
        refuse_unsupported(get(backend), "inference_mode")
