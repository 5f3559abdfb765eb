"""DDP leaves gradients of 16 bits as each rank has them."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from torch.nn.parallel import DistributedDataParallel

        forward = DistributedDataParallel.forward

        def alone(self, *inputs, **named):
            if next(self.parameters()).dtype.itemsize > 2:
                return forward(self, *inputs, **named)
            with self.no_sync():
                return forward(self, *inputs, **named)

        DistributedDataParallel.forward = alone


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_half_gradients_apart", bridge=Bridge)
