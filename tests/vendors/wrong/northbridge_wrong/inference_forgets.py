"""Under inference_mode what is multiplied in place stays as it was."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        rightly = torch.Tensor.mul_

        def mul_(tensor: torch.Tensor, other: float) -> torch.Tensor:
            is_lost = torch.is_inference_mode_enabled() and tensor.device.type == right.Device.type
            return tensor * other if is_lost else rightly(tensor, other)

        torch.Tensor.mul_ = mul_


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_inference_forgets", bridge=Bridge)
