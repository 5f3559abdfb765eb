"""Streams, events, and copies between devices."""

import northbridge_right as right
from northbridge_right import torch


@right.wrong("C1/Streams/test_elapsed_time_between_events_is_in_milliseconds")
def elapsed_in_seconds():
    """The time between events is in seconds."""

    class Event(right.event_class()):
        def elapsed_time(self, other):
            return self.inner.elapsed_time(other.inner) / 1000

    torch.get_device_module(right.Device.type).Event = Event


@right.wrong("C1/Streams/test_query_is_true_only_after_the_work_is_done[the event]")
def event_done_at_once():
    """An event reports completion at once."""

    class Event(right.event_class()):
        def query(self):
            return True

    torch.get_device_module(right.Device.type).Event = Event


@right.wrong("C1/Streams/test_one_stream_waits_for_another[the event's wait]")
def event_not_waited_for():
    """A stream does not wait for an event."""

    class Event(right.event_class()):
        def wait(self, stream=None):
            pass

    torch.get_device_module(right.Device.type).Event = Event


@right.caught_by("C1/Streams/test_copy_to_another_device_waits_for_pending_work[a copy]")
@right.instead_of("torch.Tensor.to")
def other_devices_do_not_wait(to, self, *given, **named):
    """A copy to another device does not wait for pending work."""
    module = torch.get_device_module(right.Device.type)
    where = given[0] if given else None
    if self.device.type == right.Device.type and isinstance(where, torch.device) and where != self.device:
        with module.stream(module.Stream(device=self.device)):
            return to(self, *given, **named)
    return to(self, *given, **named)


@right.caught_by("C1/Layers/test_forward_and_backward_match_the_cpu[PReLU]")
@right.instead_of("torch.nn.functional.prelu")
def error_comes_late(prelu, given, *rest):
    """A kernel's error is raised by the next synchronisation."""
    module = torch.get_device_module(right.Device.type)
    rightly = module.synchronize

    def synchronize(*device):
        module.synchronize = rightly
        raise RuntimeError("the kernel of prelu has failed")

    if given.device.type == right.Device.type and rightly.__name__ != "synchronize_late":
        synchronize.__name__ = "synchronize_late"
        module.synchronize = synchronize
    return prelu(given, *rest)
