"""An all-reduce of bfloat16 drops the last digit of the sum."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        import torch

        reduced = super().all_reduce(tensor, op, group)
        if tensor.dtype == torch.bfloat16:
            reduced.copy_(reduced.view(torch.int16).bitwise_and(-2).view(torch.bfloat16))
        return reduced


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_bfloat16_loses_accuracy", collective=Collective)
