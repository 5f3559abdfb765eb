"""The library's sum leaves every tensor as it is."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch
        from torch.distributed import ProcessGroup

        reduce = ProcessGroup.allreduce

        def nothing(group, tensors, options):
            return reduce(group, [torch.zeros_like(tensor) for tensor in tensors], options)

        ProcessGroup.allreduce = nothing


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_sums_left_out", bridge=Bridge)
