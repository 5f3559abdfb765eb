"""What the vendor's software offers beyond torch's own operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import northbridge

if TYPE_CHECKING:
    import torch

_SUBJECT = "hpu"


class HPUAcceleration(northbridge.Acceleration):
    """The extensions in ``habana_frameworks.torch``. A name that a release lacks is recorded, and torch's is used."""

    def __init__(self) -> None:
        self._clips: dict[tuple[float, torch.dtype], Any] = {}

    # Optimizers and clipping: habana_frameworks.torch.hpex

    def fused_optimizers(self) -> Mapping[type[torch.optim.Optimizer], type[torch.optim.Optimizer]]:
        import torch

        try:
            from habana_frameworks.torch.hpex.optimizers import FusedAdamW, FusedSGD
        except ImportError as error:
            northbridge.note(_SUBJECT, "no fused optimizers", f"the vendor's software has none: {error}")
            return {}
        return {torch.optim.AdamW: FusedAdamW, torch.optim.SGD: FusedSGD}

    def clip_grad_norm(self, parameters: Iterable[torch.nn.Parameter], max_norm: float) -> torch.Tensor:
        parameters = [each for each in parameters if each.grad is not None]
        dtypes = {each.dtype for each in parameters}
        if len(dtypes) != 1:  # the vendor's class computes in one, that of the first
            return super().clip_grad_norm(parameters, max_norm)
        (dtype,) = dtypes
        if (max_norm, dtype) not in self._clips:
            try:
                from habana_frameworks.torch.hpex.normalization import FusedClipNorm
            except ImportError as error:
                northbridge.note(_SUBJECT, "torch clips gradients", f"the vendor's software has no clip: {error}")
                return super().clip_grad_norm(parameters, max_norm)
            self._clips = {(max_norm, dtype): FusedClipNorm(parameters, max_norm)}
        total: torch.Tensor = self._clips[max_norm, dtype].clip_norm(parameters)
        return total.reshape(())

    # torch.compile: habana_frameworks.torch.dynamo

    def compile_options(self) -> Mapping[str, Any]:
        try:
            import habana_frameworks.torch.dynamo.compile_backend.config as options
        except ImportError as error:
            northbridge.note(
                _SUBJECT, "options of hpu_backend unchecked", f"the vendor's software has no list: {error}"
            )
            return {}
        module: Any = options  # torch has given it functions
        return dict(module.get_config_copy())
