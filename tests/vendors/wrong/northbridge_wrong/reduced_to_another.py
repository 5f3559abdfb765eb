"""In a group, the result of a reduction goes to the rank of that number in the group."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch.distributed as dist

        reduce = dist.reduce

        def misread(tensor, dst=None, op=dist.ReduceOp.SUM, group=None, async_op=False, group_dst=None):
            if group is None or dst is None:
                return reduce(tensor, dst, op, group, async_op, group_dst)
            return reduce(tensor, None, op, group, async_op, dst % dist.get_world_size(group))

        dist.reduce = misread


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_reduced_to_another", bridge=Bridge)
