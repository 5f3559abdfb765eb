"""float64 travels as float32."""

import northbridge
from northbridge_wrong import right


class Collective(right.Collective):
    def all_gather(self, tensor, group=None):
        is_double = str(tensor.dtype) == "torch.float64"
        return super().all_gather(tensor.float().double() if is_double else tensor, group)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_float64_narrowed", collective=Collective)
