"""A reduction within a group takes in all ranks."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        return super().all_reduce(tensor, op)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_group_ignored", collective=Collective)
