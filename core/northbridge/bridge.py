"""The interface between the vendor's software and torch."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import ClassVar


class Bridge(ABC):
    """The vendor's software: its detection, loading, preparation and step markers.

    The order of calls in a rank: :meth:`detect`, :meth:`missing`, :meth:`check_environment`, :meth:`prepare`,
    :meth:`load`, :meth:`prepare_rank`, the device is selected, the process group starts, and then
    :meth:`after_backward` and :meth:`after_step` in every step.
    """

    package: ClassVar[str | None] = None
    """The vendor's importable package, such as ``"torch_acme"``. No child process starts without it."""

    compile_backend: str | None = None
    """The ``torch.compile`` backend for models that a user compiled without one; None leaves the choice to torch.

    A Fabric uses it when it compiles a model again during set-up. If it depends on a mode, :meth:`load` sets it.
    """

    missing_compile_backends: Mapping[str, str] = MappingProxyType({})
    """The ``torch.compile`` backends that the chip lacks, each with its reason. Using one is an error."""

    strict_options: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """For a simulated chip: the variables under which a forgotten wait or a stale read fails every time.

    ``northbridge conformance`` sets them unless the environment already does.
    """

    backend: str = ""
    """The name of the backend that this bridge belongs to. ``Backend`` sets it."""

    @abstractmethod
    def load(self) -> None:
        """Import the vendor's torch plugin without acquiring a card.

        This is the only place where vendor software is imported. Called once per process, before the device is named,
        and again if a later part of loading failed: a second call must change nothing. Errors reach the user as
        :class:`SoftwareMissingError` or :class:`SoftwareLoadError`.
        """

    def detect(self) -> int | None:
        """Count the devices of this machine, without loading the vendor's software in this process.

        Called by ``auto``, by ``is_available()`` and before a run. It should take milliseconds: read a device file, or
        ask a management library with a time limit. None means "count in a child process", which loads the software.
        That child is started only if :meth:`missing` finds nothing and :meth:`check_environment` raises nothing.
        """
        return None

    def missing(self) -> str | None:
        """Describe the part of the vendor's software that is not installed; None if nothing is missing.

        The text completes "backend 'acme' (northbridge-acme 1.0): …". It may end with ``Fix:`` and what to install;
        otherwise the fix is to install the vendor's package. Called before :meth:`load`, and where no device is found.
        It takes milliseconds and imports neither torch nor the vendor's software. By default it looks for
        :attr:`package`. Override it for software without a package, such as a device that torch has in some builds.
        """
        if self.package is None or is_installed(self.package):
            return None
        return f"its software {self.package!r} is not installed"

    def check_count(self, count: int) -> None:
        """Raise an error if the environment contradicts ``count``. Called after each count."""

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:  # noqa: ARG002 - the interface's
        """Return the number of physical cards behind ``devices``, which are indices.

        ``total`` is the number of devices that this process sees. None means that each device is one card, or that the
        number is unknown. Called by ``northbridge list`` and for the Trainer's log line about used devices; acquires no
        card. Raises :class:`DetectionError`.
        """
        return None

    def describe_machine(self) -> dict[str, object]:
        """Return facts about driver, firmware, cards and their users, for display; acquires no card.

        Called by ``northbridge doctor`` in a child process, after :meth:`load` if that works.
        """
        return {}

    def check_environment(self) -> None:
        """Raise :class:`VariableError` if a vendor's variable has a value that is not allowed.

        Called by the default of :meth:`detect`, before :meth:`prepare`, and by ``northbridge doctor`` in a child.
        """

    def prepare(self) -> None:
        """Set variables that the vendor's import reads; keep those that the user set. Called before :meth:`load`.

        If ``import torch`` has imported the vendor's software, as torch's autoload does, the import has read its
        variables already. This method can then set only what is read later, at the first use of a card.
        """

    def prepare_rank(self, *, index: int, local_rank: int, world_size: int) -> None:
        """Set the variables that the first use of a card reads. Called per rank, before it selects card ``index``."""

    def after_backward(self) -> None:
        """Mark the end of a backward pass, for a lazy runtime to submit its graph. Called in every training step."""

    def after_step(self) -> None:
        """Mark the end of an optimizer step, for a lazy runtime to submit its graph. Called after every step."""

    def after_evaluation(self) -> None:
        """Mark the end of an evaluation step, or of a Fabric's forward pass without gradients. Called after each."""


def is_installed(package: str) -> bool:
    """Return True if the top-level package of ``package`` is found. Looking deeper would import the vendor's code."""
    top = package.partition(".")[0]
    return sys.modules.get(top) is not None or find_spec(top) is not None
