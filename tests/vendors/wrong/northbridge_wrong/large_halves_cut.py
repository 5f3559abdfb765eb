"""A sum of 16-bit numbers that is longer than a megabyte ends there."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        flat = tensor.view(-1) if tensor.is_contiguous() else tensor
        if tensor.element_size() != 2 or flat.numel() <= 2**19:
            return super().all_reduce(tensor, op, group)
        super().all_reduce(flat[: 2**19], op, group)
        return tensor


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_large_halves_cut", collective=Collective)
