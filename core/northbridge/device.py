"""The chip, as torch sees it."""

from __future__ import annotations

from abc import ABC
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from northbridge.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

    from northbridge.capabilities import Capabilities


class Device(ABC):
    """One family of chips.

    Every default speaks to ``torch.<type>`` as one speaks to ``torch.cuda``; override a method only where the vendor's
    module differs. Nothing here is called before ``Bridge.load()`` has run. Errors of the vendor's module pass through
    unless a method says otherwise; a function that the module lacks is an :class:`UnsupportedError`.
    """

    type: ClassVar[str]
    """The torch device type, such as ``"acme"``."""

    out_of_memory: ClassVar[tuple[str, ...]] = ("out of memory",)
    """What stands in the RuntimeError that tells of full memory, where that is no ``torch.OutOfMemoryError``."""

    @property
    def module(self) -> ModuleType:
        """The torch module of this chip, ``torch.<type>``."""
        import torch

        module: ModuleType = torch.get_device_module(self.type)
        return module

    def count(self) -> int:
        """Return how many devices this process can see. Asked in the child process that looks for hardware."""
        return int(self._call("device_count"))

    def root(self, index: int) -> torch.device:
        """Return what this process calls the parallel device ``index`` once it holds it.

        The strategies ask whenever they need their root device. A chip that lets a process hold one card, and calls
        that card 0 wherever it is, answers 0 for every index; :meth:`select` has then taken the card ``index``.
        """
        import torch

        return torch.device(self.type, index)

    def select(self, index: int) -> None:
        """Take the device ``index`` for this process. Called once a rank, and the first touch of a card."""
        self._call("set_device", index)

    def synchronize(self) -> None:
        """Block until all work queued on the current device is done; used to measure time."""
        self._call("synchronize")

    def label(self, index: int) -> str:
        """Return the card's product name, for people to read."""
        return str(self._call("get_device_name", index))

    def memory_stats(self, index: int) -> dict[str, float]:
        """Return numbers about the device's memory, in bytes where they are sizes. Called by DeviceStatsMonitor."""
        stats: dict[str, float] = dict(self._call("memory_stats", index))
        return stats

    def empty_cache(self) -> None:
        """Give cached memory back. Called after training.

        Nothing happens where the chip's module has no ``empty_cache``: such a chip keeps no cache that it gives back.
        """
        empty = getattr(self.module, "empty_cache", None)
        if empty is not None:
            empty()

    def random_state(self) -> torch.Tensor:
        """Return the state of the current device's generator, on the CPU. Called for a checkpoint, and to isolate."""
        state: torch.Tensor = self._call("get_rng_state")
        return state

    def set_random_state(self, state: torch.Tensor) -> None:
        """Put back what :meth:`random_state` returned, of this chip and perhaps of another process."""
        self._call("set_rng_state", state)

    def seed(self, seed: int) -> None:
        """Seed the generator of every device. Called when a rank starts, with the seed of ``seed_everything``."""
        self._call("manual_seed_all", seed)

    def capabilities(self, claimed: Capabilities) -> Capabilities:
        """Return ``claimed``, corrected by what the cards of this machine are, where generations of a chip differ.

        Asked after ``Bridge.load()``, before precision and strategy are chosen; takes no card.
        """
        return claimed

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        """Return the dtypes that ``torch.autocast(type)`` takes. Asked before mixed precision is set up.

        torch turns autocast off, with a warning, for a dtype that the device does not take.
        """
        return tuple(self._call("get_amp_supported_dtype"))

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            called = getattr(self.module, function)
        except AttributeError:
            raise UnsupportedError(
                f"torch.{self.type} has no {function}. Fix: upgrade the vendor's software, or override its"
                f" caller in {type(self).__name__}",
                capability=function,
            ) from None
        return called(*arguments)


def describe_device_type(name: str) -> str:
    """Return which of the two ways made ``name`` a device type in this process; it has to be one already.

    torch has one spare type, PrivateUse1, which a plugin renames; a torch that the vendor has built, or that knows the
    chip, has a type of its own for it.
    """
    if is_renamed(name):
        return f"torch's spare device type, PrivateUse1, renamed to {name!r}"
    return f"a device type of its own, {name!r}, in this torch"


def is_renamed(name: str) -> bool:
    """Whether ``name`` is torch's spare device type, renamed in this process."""
    import torch

    return bool(torch._C._get_privateuse1_backend_name() == name)
