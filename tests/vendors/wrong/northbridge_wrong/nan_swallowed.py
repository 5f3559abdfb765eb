"""What is not a number is a number when it has been reduced."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        reduced = super().all_reduce(tensor, op, group)
        return reduced.nan_to_num_() if reduced.is_floating_point() else reduced


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_nan_swallowed", collective=Collective)
