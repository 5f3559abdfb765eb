"""Where the vendor's software meets torch."""

import northbridge


class ChipBridge(northbridge.Bridge):
    """Loads ``torch_basalt``."""

    package = "torch_basalt"

    def check_environment(self) -> None:
        """Reject a wrong list of cards."""
        from northbridge_basalt.settings import ChipSettings

        ChipSettings.read()

    def load(self) -> None:
        """Import the vendor's torch plugin, which registers the device and the process group."""
        import torch_basalt  # noqa: F401
