"""A sum is returned while it is still under way."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        import torch.distributed as dist

        if op != "sum":
            return super().all_reduce(tensor, op, group)
        dist.all_reduce(tensor, group=group, async_op=True)
        return tensor


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_collective_not_waited_for", collective=Collective)
