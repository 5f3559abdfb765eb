"""The ways in which a chip becomes a device type of torch."""

from __future__ import annotations

import northbridge
from northbridge.device import describe_device_type


def test_renamed_spare_type_is_told_from_torchs_own() -> None:
    northbridge.load("cpu_sim")

    assert describe_device_type("cpu_sim") == "torch's spare device type, PrivateUse1, renamed to 'cpu_sim'"
    assert describe_device_type("xpu") == "a device type of its own, 'xpu', in this torch"
