"""A scattered sum over a number of ranks that is no power of two leaves the last rank out."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch.distributed as dist

        scatter = dist.reduce_scatter_tensor

        def halve(output, given, op=dist.ReduceOp.SUM, group=None, async_op=False):
            ranks = dist.get_world_size(group)
            if ranks & (ranks - 1) and dist.get_rank(group) == ranks - 1:
                given = given * 0
            return scatter(output, given, op, group, async_op)

        dist.reduce_scatter_tensor = halve


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_scatter_in_threes", bridge=Bridge)
