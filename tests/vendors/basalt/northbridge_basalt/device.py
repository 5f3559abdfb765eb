"""The chip as torch sees it: override what differs from torch.cuda."""

import northbridge


class ChipDevice(northbridge.Device):
    """Basalt B1."""

    type = "basalt"
