"""One chip family as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field

from northbridge.acceleration import Acceleration
from northbridge.bridge import Bridge
from northbridge.capabilities import Capabilities
from northbridge.collective import Collective
from northbridge.device import Device
from northbridge.errors import UnsupportedError

API_VERSION = 1
"""Version of the plugin API. It grows when a plugin written for the previous version would break."""


@dataclass(frozen=True)
class Backend:
    """The parts of one chip family, tied together.

    ``name`` is the name in ``Trainer(accelerator=name)`` and the name of the entry point. ``api`` is the plugin API
    that the plugin was written for: write ``api=2`` if it relies on something of version 2.
    """

    name: str
    device: Device
    collective: Collective
    bridge: Bridge
    capabilities: Capabilities = field(default_factory=Capabilities)
    api: int = 1
    acceleration: Acceleration = field(default_factory=Acceleration)
    """What the chip offers beyond torch's own operators; the default is right for a chip that has nothing."""

    def __post_init__(self) -> None:
        parts = {
            "device": Device,
            "collective": Collective,
            "bridge": Bridge,
            "capabilities": Capabilities,
            "acceleration": Acceleration,
        }
        for part, kind in parts.items():
            value = getattr(self, part)
            if not isinstance(value, kind):
                raise TypeError(
                    f"Backend({self.name!r}, …): {part} must be a northbridge.{kind.__name__}, found {value!r}"
                )
        for value, attribute in ((self.device, "type"), (self.collective, "name")):
            if not isinstance(getattr(value, attribute, None), str):
                owner = type(value).__name__
                raise TypeError(f'Backend({self.name!r}, …): {owner} needs {attribute} = "…"')
        self.bridge.backend = self.name
        self.acceleration.device_type = self.device.type

    def present_capabilities(self) -> Capabilities:
        """Return the claims, corrected by the device for this machine's cards. Call it after loading."""
        return self.device.capabilities(self.capabilities)


def reject_denied(backend: Backend, claim: str, what: str, instead: str) -> None:
    """Raise :class:`UnsupportedError`, which gives the reason for ``what``, if the chip denies ``claim``."""
    found = backend.present_capabilities().claims()[claim]
    if found.denied:
        raise UnsupportedError(f"{what}: {found.reason}. Fix: {instead}", capability=claim)
