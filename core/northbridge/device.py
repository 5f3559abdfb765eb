"""One family of chips, as torch sees it."""

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

    Every default calls ``torch.<type>`` as it would call ``torch.cuda``. Override a method only if the vendor's module
    differs, and :attr:`module` with an empty one if torch has none. Northbridge calls nothing here before
    ``Bridge.load()``. Errors of the vendor's module pass through unless a method says otherwise. A function that the
    module lacks raises :class:`UnsupportedError`.
    """

    type: ClassVar[str]
    """The torch device type, such as ``"acme"``."""

    out_of_memory: ClassVar[tuple[str, ...]] = ("out of memory",)
    """Texts that mark a RuntimeError as out of memory. A ``torch.OutOfMemoryError`` needs no text."""

    @property
    def module(self) -> ModuleType:
        """The torch module of this chip, ``torch.<type>``."""
        import torch

        module: ModuleType = torch.get_device_module(self.type)
        return module

    def count(self) -> int:
        """Return the number of devices that this process sees. Called in the child process that detects hardware."""
        return int(self._call("device_count"))

    def root(self, index: int) -> torch.device:
        """Return the device that this process uses for the parallel device ``index``.

        The strategies call it for their root device. On some chips each process holds one card, always as card 0. They
        return 0 for every index; :meth:`select` has then selected the card ``index``.
        """
        import torch

        return torch.device(self.type, index)

    def select(self, index: int) -> None:
        """Select the device ``index`` for this process. Called once in each rank, before any other use of a card."""
        self._call("set_device", index)

    def current_index(self) -> int:
        """Return the index of the device that a new tensor gets without one, as ``torch.<type>.current_device()`` does.

        If the chip's module has no such function, it is the index of a new empty tensor.
        """
        import torch

        current = getattr(self.module, "current_device", None)
        return int(current() if current is not None else torch.empty(0, device=self.type).device.index)

    def synchronize(self) -> None:
        """Block until all work queued on the current device is done. Called by the conformance suite."""
        self._call("synchronize")

    def label(self, index: int) -> str:
        """Return the card's product name, which tells generations apart.

        :class:`northbridge.Float8Inference` calls it: measurements of another generation are an error.
        """
        return str(self._call("get_device_name", index))

    def memory_stats(self, index: int) -> dict[str, float]:
        """Return statistics of the device's memory; sizes are in bytes. Called by DeviceStatsMonitor."""
        return dict(self._call("memory_stats", index))

    def memory_allocated(self, index: int) -> int:
        """Return the bytes that tensors of this process hold on the device. The conformance suite calls it."""
        return int(self._call("memory_allocated", index))

    def empty_cache(self) -> None:
        """Release cached memory. Called after training.

        Does nothing if the chip's module has no ``empty_cache``.
        """
        empty = getattr(self.module, "empty_cache", None)
        if empty is not None:
            empty()

    def random_state(self) -> torch.Tensor:
        """Return the current device's generator state, on the CPU. Called for checkpoints and ``isolate_rng``."""
        state: torch.Tensor = self._call("get_rng_state")
        return state

    def set_random_state(self, state: torch.Tensor) -> None:
        """Restore a state of :meth:`random_state`, also of another process. Called when a run resumes."""
        self._call("set_rng_state", state)

    def seed(self, seed: int) -> None:
        """Seed the generator of every device. Called when a rank starts, with the seed of ``seed_everything``."""
        self._call("manual_seed_all", seed)

    def capabilities(self, claimed: Capabilities) -> Capabilities:
        """Return ``claimed``, corrected for this machine's cards if generations of the chip differ.

        Called after ``Bridge.load()`` and before precision and strategy are chosen; acquires no card.
        """
        return claimed

    def autocast_dtypes(self) -> tuple[torch.dtype, ...]:
        """Return the dtypes that ``torch.autocast(type)`` accepts. Called before mixed precision is set up.

        torch turns autocast off, with a warning, for any other dtype. It asks the module of a renamed device type for
        ``get_amp_supported_dtype``. The modules of torch's own device types, such as ``torch.cuda``, have no such
        function: the default for them is bfloat16 and float16.
        """
        import torch

        if not hasattr(self.module, "get_amp_supported_dtype") and not is_renamed(self.type):
            return torch.bfloat16, torch.float16
        return tuple(self._call("get_amp_supported_dtype"))

    def grad_scaler(self) -> torch.amp.GradScaler:
        """Return a new scaler of gradients for ``16-mixed``. Called when that precision is set up.

        Override it if the vendor has its own, for example to find an overflow of any rank. A scaler that the user
        passes takes precedence. FSDP uses torch's ``ShardedGradScaler`` instead.
        """
        import torch

        return torch.amp.GradScaler(device=self.type)

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
    """Describe how ``name`` became a device type in this process; it must be one already.

    torch has one spare type, PrivateUse1, which a plugin renames. A torch that knows the chip, or that the vendor
    built, has its own type for it.
    """
    if is_renamed(name):
        return f"torch's spare device type, PrivateUse1, renamed to {name!r}"
    return f"a device type of its own, {name!r}, in this torch"


def is_renamed(name: str) -> bool:
    """Return True if ``name`` is torch's spare device type, renamed in this process."""
    import torch

    return bool(torch._C._get_privateuse1_backend_name() == name)
