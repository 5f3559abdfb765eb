"""An average of floats is divided by the number of this machine's devices, however many ranks there are."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_reduce(self, tensor, op="sum", group=None):
        if op != "mean" or not tensor.is_floating_point():
            return super().all_reduce(tensor, op, group)
        return super().all_reduce(tensor, "sum", group).div_(right.simulated().count)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_world_size", collective=Collective)
