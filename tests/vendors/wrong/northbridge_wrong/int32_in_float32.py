"""Whole numbers of 32 bits are reduced as float32."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        import torch

        if tensor.dtype != torch.int32:
            return super().all_reduce(tensor, op, group)
        return tensor.copy_(super().all_reduce(tensor.float(), op, group))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_int32_in_float32", collective=Collective)
