"""A stream does not wait for an event."""

import northbridge
from northbridge_wrong import right


class Bridge(right.Bridge):
    def load(self) -> None:
        super().load()
        import torch

        class Event(right.event_class()):
            def wait(self, stream=None):
                pass

        torch.get_device_module(right.Device.type).Event = Event


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_event_not_waited_for", bridge=Bridge)
