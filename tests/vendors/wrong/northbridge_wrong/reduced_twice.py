"""What the last rank gives is counted twice."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        import torch.distributed as dist

        if op in ("sum", "mean") and dist.get_rank() == dist.get_world_size() - 1:
            tensor.mul_(2)
        return super().all_reduce(tensor, op, group)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_reduced_twice", collective=Collective)
