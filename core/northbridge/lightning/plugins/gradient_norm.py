"""Clipping of gradients by their 2-norm, with the chip's own function if it has one."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from northbridge.acceleration import Acceleration
from northbridge.backend import Backend


def clips_by_itself(backend: Backend, parameters: Iterable[torch.nn.Parameter], norm_type: float = 2.0) -> bool:
    """Return True if the chip clips the gradients of ``parameters`` by a function of its own.

    Other norms, sharded gradients and gradients on another device are left to torch.
    """
    if type(backend.acceleration).clip_grad_norm is Acceleration.clip_grad_norm or float(norm_type) != 2.0:
        return False
    gradients = [each.grad for each in parameters if each.grad is not None]
    # A subclass, such as DTensor, may hold a part: the norm of that part is not the whole norm.
    return all(
        type(each) is torch.Tensor and each.device.type == backend.device.type and not each.is_sparse
        for each in gradients
    )


def clip_grad_norm(
    backend: Backend, parameters: Iterable[torch.nn.Parameter], max_norm: float, *, error_if_nonfinite: bool = False
) -> torch.Tensor:
    """Clip the gradients with the chip's own function, and return their norm before.

    Raises :class:`RuntimeError` with torch's text for a norm that is not finite, if ``error_if_nonfinite``. The
    gradients have been scaled by then.
    """
    total = backend.acceleration.clip_grad_norm(parameters, max_norm)
    if error_if_nonfinite and not torch.isfinite(total):
        raise RuntimeError(
            "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped. To"
            " disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total
