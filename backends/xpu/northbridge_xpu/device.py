"""An Intel GPU, as torch sees it."""

import northbridge


class XPUDevice(northbridge.Device):
    """A tile of a card, or a whole card if ``ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE``."""

    type = "xpu"
