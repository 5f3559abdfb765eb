"""A broadcast into what does not lie in one piece arrives in a copy."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.distributed import ProcessGroup

        broadcast = ProcessGroup.broadcast

        def in_one_piece(group, tensors, *options):
            return broadcast(group, [each.contiguous() for each in tensors], *options)

        ProcessGroup.broadcast = in_one_piece


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_strided_broadcast_lost", bridge=Bridge)
