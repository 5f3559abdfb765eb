"""The library's average is the sum."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.distributed import ProcessGroup, ReduceOp

        reduce = ProcessGroup.allreduce

        def added_up(group, tensors, options):
            if options.reduceOp == ReduceOp.AVG:
                options.reduceOp = ReduceOp.SUM
            return reduce(group, tensors, options)

        ProcessGroup.allreduce = added_up


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_average_is_a_sum", bridge=Bridge)
