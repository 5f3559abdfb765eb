"""torchao's linear layer, under the autocast and the inference mode of any chip. Its import brings torchao."""

from __future__ import annotations

import torch
from torchao.float8.float8_linear import Float8Linear  # pyright: ignore[reportMissingImports]  # in .engines


class _AutocastLinear(Float8Linear):  # type: ignore[misc]  # torchao is not among what mypy sees
    """A linear layer whose products are computed in float8."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name
        """Compute the layer in the dtype that autocast has for ``torch.nn.Linear``."""
        kind = input.device.type
        if torch.is_autocast_enabled(kind):  # torchao asks for that of CUDA
            input = input.to(torch.get_autocast_dtype(kind))  # noqa: A001
        if not torch.is_inference_mode_enabled():
            return super().forward(input)  # type: ignore[no-any-return]
        with torch.inference_mode(False), torch.no_grad():  # torchao's tensors lack what inference mode calls
            return super().forward(input)  # type: ignore[no-any-return]
