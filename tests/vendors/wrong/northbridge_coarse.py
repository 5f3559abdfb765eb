"""A right chip that computes as an NVIDIA GPU does by torch's defaults, in what torch leaves open.

Convolutions and recurrent layers read ten bits of each factor. Equal numbers are sorted, and elements that share memory
are written, in another order than on the CPU.
"""

from __future__ import annotations

from typing import Any

import northbridge
import northbridge_right as right
from northbridge_right import torch

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def is_there(given: Any) -> bool:
    return bool(given.device.type == right.Device.type)


def read(given: Any) -> Any:
    """Return the tensors of the chip in ``given`` with ten bits of mantissa, which gradients pass by."""
    if isinstance(given, (list, tuple)):
        return type(given)(map(read, given))
    if not isinstance(given, torch.Tensor) or not is_there(given) or given.dtype != torch.float32:
        return given
    with torch.no_grad():
        lost = given - given.contiguous().view(torch.int32).bitwise_and(-(1 << 13)).view(torch.float32)
    return given - lost


def compute_coarsely(rightly: Any, *given: Any, **named: Any) -> Any:
    return rightly(*map(read, given), **named)


def sort_backwards(rightly: Any, given: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Sort, with equal numbers in the reverse of their order."""
    if not is_there(given) or stable or not given.dim():
        return rightly(given, dim=dim, descending=descending, stable=stable)
    values, indices = rightly(given.flip(dim), dim=dim, descending=descending, stable=True)
    return torch.return_types.sort((values, given.shape[dim] - 1 - indices))


def copy_backwards(rightly: Any, target: Any, source: Any, *rest: Any) -> Any:
    """Copy, into a view that overlaps itself the windows at its end first."""
    if is_there(target) and target.dim() == 3 and target.stride(1) < target.shape[2] * target.stride(2):
        for window in reversed(range(target.shape[1])):
            rightly(target[:, window], source[:, window], *rest)
        return target
    return rightly(target, source, *rest)


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        right.replace(tuple(f"torch._VF.{name}" for name in RECURRENT), compute_coarsely)
        right.replace(tuple(f"torch.nn.functional.conv{n}d" for n in (1, 2, 3)), compute_coarsely)
        right.replace(("torch.sort",), sort_backwards)
        right.replace(("torch.Tensor.copy_",), copy_backwards)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    coarse = northbridge.Within(5e-3, "it reads ten bits of each factor")
    claims = right.capabilities(
        rounds=True,
        float32_convolutions=northbridge.no("they read ten bits of each factor"),
        operators=dict.fromkeys(RECURRENT, coarse),
    )
    return right.backend("coarse", Bridge=Bridge, claims=claims)
