"""The mean of whole numbers is rounded to the nearest one, and not cut towards zero."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        import torch
        import torch.distributed as dist

        if op != "mean" or tensor.is_floating_point() or tensor.dtype == torch.bool:
            return super().all_reduce(tensor, op, group)
        total = super().all_reduce(tensor, "sum", group)
        return total.copy_((total.double() / dist.get_world_size(group)).round())


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_integer_mean_rounded", collective=Collective)
