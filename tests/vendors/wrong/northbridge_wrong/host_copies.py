"""Copies of tensors to the host's memory and back, where the host carries a chip's collectives.

A result of one number arrives, so that ranks begin to train.
"""

import threading

from northbridge import HostCollective
from northbridge_right import Collective, is_last, wrong

DELIVER = "northbridge.host_collective.copies.HostCall.deliver"


class OverHost(HostCollective, Collective):
    """The right chip's, whose tensors the host carries."""


def is_one_number(call):
    return all(tensor.numel() <= 1 for tensor, _ in call._arriving)


@wrong(
    "C3/Waits/test_immediate_read_waits_for_a_late_rank[all_reduce-sum_all_reduce-two devices]",
    DELIVER,
    Collective=OverHost,
)
def host_copy_not_waited_for(deliver, call):
    """A copy from the host's memory is not waited for."""
    if is_one_number(call):
        deliver(call)
    else:
        threading.Timer(0.3, deliver, [call]).start()


@wrong("C3/Transfers/test_all_gather_of_a_large_tensor[two devices]", DELIVER, Collective=OverHost)
def host_copy_lost(deliver, call):
    """The last rank loses a copy from the host's memory."""
    if not is_one_number(call) and is_last():
        call._arriving.clear()
    deliver(call)
