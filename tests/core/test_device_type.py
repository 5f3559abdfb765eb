"""How a chip became a device type of torch."""

from __future__ import annotations

import northbridge
from northbridge.device import describe_device_type


def test_a_spare_type_that_was_renamed_is_told_from_one_of_torchs_own() -> None:
    northbridge.load("cpu_sim")

    assert describe_device_type("cpu_sim") == "torch's spare device type, PrivateUse1, renamed to 'cpu_sim'"
    assert describe_device_type("xpu") == "a device type of its own, 'xpu', in this torch"
