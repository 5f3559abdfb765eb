"""The sum of an even number of true is false."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        import torch

        if tensor.dtype == torch.bool and op == "sum":
            counted = super().all_reduce(tensor.int(), op, group)
            return tensor.copy_(counted % 2 == 1)
        return super().all_reduce(tensor, op, group)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_truths_cancel", collective=Collective)
