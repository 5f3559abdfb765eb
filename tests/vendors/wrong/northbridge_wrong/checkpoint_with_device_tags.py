"""The tensors of a checkpoint say that they lie on the chip."""

import northbridge
from northbridge_wrong import right


def to_cpu(state):
    return state


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        from northbridge.lightning.plugins import checkpoint_io

        checkpoint_io.to_cpu.__code__ = to_cpu.__code__  # by its code, since others have taken the function already


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_checkpoint_with_device_tags", bridge=Bridge)
