"""An Intel GPU, as torch sees it."""

from __future__ import annotations

import northbridge


class XPUDevice(northbridge.Device):
    """A tile of a card, or a whole card if ``ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE``."""

    type = "xpu"
