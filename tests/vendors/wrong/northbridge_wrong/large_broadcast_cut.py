"""Of a large tensor the first numbers are broadcast alone."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.distributed import ProcessGroup

        broadcast = ProcessGroup.broadcast

        def first_part(group, tensors, options):
            return broadcast(group, [tensors[0].view(-1)[: 2**16]] if tensors[0].numel() > 2**16 else tensors, options)

        ProcessGroup.broadcast = first_part


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_large_broadcast_cut", bridge=Bridge)
