"""One chip family as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from northbridge.acceleration import Acceleration
from northbridge.bridge import Bridge
from northbridge.capabilities import Capabilities, no
from northbridge.collective import Collective
from northbridge.device import Device
from northbridge.errors import UnsupportedError

API_VERSION = 1
"""Version of the plugin API. It grows when a plugin written for the previous version would break."""

_CLAIMS_OF_RANKS = (
    "sum_all_reduce",
    "broadcast",
    "all_gather",
    "barrier",
    "ddp_averaging",
    "sync_batchnorm",
    "sharding",
    "deepspeed",
    "fsdp",
)
"""The claims that a chip without a communication library denies."""


@dataclass(frozen=True)
class Backend:
    """The parts of one chip family, tied together.

    ``name`` is the name in ``Trainer(accelerator=name)`` and the name of the entry point. ``api`` is the plugin API
    that the plugin was written for; 1 is the only version. ``collective`` is None if the chip has no communication
    library: it then trains on one device, and denies what several ranks need.
    """

    name: str
    device: Device
    collective: Collective | None
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
            if not isinstance(value, kind) and (part, value) != ("collective", None):
                more = " or None" if part == "collective" else ""
                raise TypeError(
                    f"Backend({self.name!r}, …): {part} must be a northbridge.{kind.__name__}{more}, found {value!r}"
                )
        for value, attribute in ((self.device, "type"), (self.collective, "name")):
            if value is not None and not isinstance(getattr(value, attribute, None), str):
                owner = type(value).__name__
                raise TypeError(f'Backend({self.name!r}, …): {owner} needs {attribute} = "…"')
        self.bridge.backend = self.name
        self.acceleration.device_type = self.device.type
        if self.collective is None:
            object.__setattr__(self, "capabilities", self._deny_ranks())
        else:
            self.collective.device_type = self.device.type
            self.collective.pins_memory = self.capabilities.pinned_memory.answer == "yes"

    def _deny_ranks(self) -> Capabilities:
        claims = self.capabilities.claims()
        for name in _CLAIMS_OF_RANKS:
            if claims[name].answer == "yes":
                raise ValueError(
                    f"Backend({self.name!r}, …): {name} is claimed, but collective is None. Fix:"
                    " northbridge.HostCollective(), or no such claim"
                )
        denied = no("it has no communication library")
        unsaid: dict[str, Any] = {name: denied for name in _CLAIMS_OF_RANKS if not claims[name].denied}
        return replace(self.capabilities, **unsaid)

    def require_collective(self) -> Collective:
        """Return the communication library. Raises :class:`UnsupportedError` if the chip has none."""
        if self.collective is None:
            raise UnsupportedError(
                f"{self.name!r} has no communication library, which several ranks and strategy='ddp' need. Fix:"
                " devices=1 and no strategy, or northbridge.HostCollective() in its plugin",
                capability="collective",
            )
        return self.collective

    def present_capabilities(self) -> Capabilities:
        """Return the claims, corrected by the device for this machine's cards. Call it after loading."""
        return self.device.capabilities(self.capabilities)


def reject_denied(backend: Backend, claim: str, what: str, instead: str) -> None:
    """Raise :class:`UnsupportedError`, which gives the reason for ``what``, if the chip denies ``claim``."""
    found = backend.present_capabilities().claims()[claim]
    if found.denied:
        raise UnsupportedError(f"{what}: {found.reason}. Fix: {instead}", capability=claim)
