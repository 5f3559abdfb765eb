"""``torch.optim.swa_utils.AveragedModel`` with buffers of integers, such as a batch norm's counter."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def average_integers_one_by_one() -> None:
    """Let an averaged model average its integers on the chip as on the CPU.

    On accelerators torch averages a list of tensors in one call, ``addcdiv``, which raises an error for integers.
    """
    from torch.optim import swa_utils

    stock: Any = swa_utils.get_swa_multi_avg_fn
    one_by_one: Any = swa_utils.get_swa_avg_fn

    @wraps(stock)
    def get_swa_multi_avg_fn() -> Any:
        average_list: Any = stock()
        average: Any = one_by_one()

        def swa_update(averaged: list[Tensor], current: list[Tensor], num_averaged: Tensor | int) -> None:
            if averaged[0].is_floating_point() or averaged[0].is_complex():
                average_list(averaged, current, num_averaged)
                return
            for kept, new in zip(averaged, current, strict=True):
                kept.copy_(average(kept, new, num_averaged))

        return swa_update

    swa_utils.get_swa_multi_avg_fn = get_swa_multi_avg_fn
