"""A part of a tensor is reduced where the tensor begins."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        if tensor.is_contiguous() and tensor.storage_offset():
            super().all_reduce(tensor.as_strided(tensor.shape, tensor.stride(), 0), op, group)
            return tensor
        return super().all_reduce(tensor, op, group)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_offset_ignored", collective=Collective)
