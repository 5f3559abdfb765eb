"""Products, convolutions and layer norms of float32, summed up in float64 and rounded once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

OPERATORS = (
    "aten.mm.default",
    "aten.bmm.default",
    "aten.addmm.default",
    "aten.convolution.default",
    "aten.convolution_backward.default",
    "aten.native_layer_norm.default",
    "aten.native_layer_norm_backward.default",
)


class Otherwise(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own __init_subclass__
    """Stands between torch and the chip."""

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call ``func`` on the chip, or in float64 on the CPU; torch calls this."""
        tensors = [each for each in args if isinstance(each, Tensor)]
        if str(func) not in OPERATORS or any(
            each.device.type != self._device or each.dtype is not torch.float32 for each in tensors
        ):
            return func(*args, **kwargs or {})
        (device,) = {each.device for each in tensors}
        result = func(*tree_map_only(Tensor, lambda each: each.cpu().double(), args), **kwargs or {})
        return tree_map_only(Tensor, lambda each: each.float().to(device), result)
