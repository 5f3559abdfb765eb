"""A broadcast of floats comes from rank 0, whichever rank was named; objects travel as bytes, and as they should."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.distributed import ProcessGroup

        broadcast = ProcessGroup.broadcast

        def from_rank_0(group, tensors, options):
            if tensors[0].is_floating_point():
                options.rootRank = 0
            return broadcast(group, tensors, options)

        ProcessGroup.broadcast = from_rank_0


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_broadcast_from_wrong_root", bridge=Bridge)
