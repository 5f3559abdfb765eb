"""Errors of the simulated chip's build, and of the cards of its server."""

from __future__ import annotations

import northbridge


class BuildError(northbridge.SoftwareLoadError):
    """The simulated chip could not be compiled, or its compiled file could not be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, backend="cpu_sim")


class HostError(BuildError, northbridge.UnsupportedError):
    """The simulated chip does not run on this machine, or with its torch."""

    def __init__(self, message: str) -> None:
        northbridge.NorthbridgeError.__init__(self, message)
        self.backend, self.capability = "cpu_sim", "host"


class DeviceFileError(northbridge.NorthbridgeError, ValueError):
    """The ``device.toml`` of a simulation has a missing or wrong entry."""


class FaultError(northbridge.NorthbridgeError):
    """A planned fault is unknown, or contradicts itself."""


class ServerError(northbridge.NorthbridgeError):
    """The folder of a simulated server may be another user's."""


class CardTakenError(northbridge.NorthbridgeError):
    """Another process, ``pid``, holds the card ``card``."""

    def __init__(self, card: int, pid: int) -> None:
        super().__init__(
            f"card {card} was asked for, but process {pid} holds it. Fix: wait for its end, or take another card"
        )
        self.card = card
        self.pid = pid
