"""Where the vendor's software meets torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import ClassVar


class Bridge(ABC):
    """The vendor's software: how it is found, loaded, prepared and told that a step is over.

    The order of calls in a rank: :meth:`detect`, :meth:`check_environment`, :meth:`prepare`, :meth:`load`,
    :meth:`prepare_rank`, the device is selected, the process group starts, and then :meth:`after_backward` and
    :meth:`after_step` in every step.
    """

    package: ClassVar[str | None] = None
    """The vendor's importable package, such as ``"torch_acme"``. Where it cannot be found, no child is asked."""

    compile_backend: str | None = None
    """The backend of ``torch.compile`` for models that a user compiled without one; None leaves it to torch.

    A Fabric takes it, which compiles a model once more when it has set it up. Where it depends on a mode, :meth:`load`
    writes it.
    """

    missing_compile_backends: Mapping[str, str] = MappingProxyType({})
    """The backends of ``torch.compile`` that the chip lacks, and why. A Trainer or Fabric refuses them at once."""

    strict_options: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Of a simulated chip: the variables under which a forgotten wait or a stale read shows every time.

    ``northbridge conformance`` sets them, where the environment does not say otherwise.
    """

    backend: str = ""
    """The name of the backend that this bridge belongs to. ``Backend`` writes it."""

    @abstractmethod
    def load(self) -> None:
        """Import the vendor's torch plugin, and take no card.

        The one place where vendor software is imported. Called once a process, before anything names the device, and
        again where what follows it has failed: a second call changes nothing. What it raises reaches the user as
        :class:`SoftwareMissingError` or :class:`SoftwareLoadError`.
        """

    def detect(self) -> int | None:
        """Return how many devices this machine has, without loading the vendor's software in this process.

        Called by ``auto``, by ``is_available()`` and before a run: within milliseconds where the vendor can (a device
        file, a management library with a time limit). None says "count me in a child process", which loads the
        software: it is started where :attr:`package` is installed and :meth:`check_environment` finds nothing.
        """
        return None

    def check_count(self, count: int) -> None:
        """Refuse ``count`` devices, where the environment speaks of others. Called after every count."""

    def count_cards(self, devices: Collection[int], *, total: int) -> int | None:  # noqa: ARG002 - the interface's
        """Return on how many cards ``devices`` lie, by their indices, where a card may be several devices.

        ``total`` is how many devices this process sees. None says that a device is a card, or that nobody can tell.
        Called by ``northbridge list``, and for the line of the log that says what a Trainer uses; takes no card. Raises
        :class:`DetectionError`.
        """
        return None

    def describe_machine(self) -> dict[str, object]:
        """Return facts about driver, firmware, cards and who uses them, for people to read; takes no card.

        Called by ``northbridge doctor`` in a child process, after :meth:`load` where that works.
        """
        return {}

    def check_environment(self) -> None:
        """Raise :class:`VariableError` where a variable of the vendor's has a value that is not allowed.

        Called by the default of :meth:`detect`, before :meth:`prepare`, and by ``northbridge doctor`` in a child.
        """

    def prepare(self) -> None:
        """Set what the vendor's import reads from the environment. What the user set wins. Called before the import."""

    def prepare_rank(self, *, index: int, local_rank: int, world_size: int) -> None:
        """Set what must stand before the first touch of a card: ``index`` is the one that this rank will take."""

    def after_backward(self) -> None:
        """Mark the end of a backward pass. A lazy runtime submits its graph here."""

    def after_step(self) -> None:
        """Mark the end of an optimizer step. A lazy runtime submits its graph here."""

    def after_evaluation(self) -> None:
        """Mark the end of a step that no backward pass follows: of validation, test, prediction. As above."""


def is_installed(package: str) -> bool:
    """Return whether the top of ``package`` can be found: to look below it would import the vendor's code."""
    return find_spec(package.partition(".")[0]) is not None
