"""The time between two events is in seconds."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        class Event(right.event_class()):
            def elapsed_time(self, other):
                return self.inner.elapsed_time(other.inner) / 1000

        torch.get_device_module(right.Device.type).Event = Event


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_elapsed_in_seconds", bridge=Bridge)
