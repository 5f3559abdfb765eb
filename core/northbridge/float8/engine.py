"""What trains linear layers in float8 on a chip, and what quantizes them for inference: two interfaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from northbridge.errors import UnsupportedError

if TYPE_CHECKING:
    import torch

FIX = "pip install torchao"
"""The command that installs the library of :class:`northbridge.TorchAO`; the extra ``float8`` brings it, too."""


class Float8Engine(ABC):
    """Software that computes the products of linear layers in float8, forward and backward.

    A chip offers its engines in :meth:`northbridge.Acceleration.float8_engines`.
    """

    emulates: bool = False
    """True if it rounds to float8, but multiplies in a wider dtype, because the chip has no product of float8."""

    multiple: int = 1
    """Both dimensions of a weight must be multiples of it. Other layers stay in the run's precision."""

    @abstractmethod
    def read_recipe(self, recipe: Any) -> Any:
        """Return the engine's own form of a user's ``recipe``; its default for None.

        Called once for each run, before :meth:`convert`. Raises :class:`ArgumentsError` for an invalid recipe, and
        :class:`UnsupportedError` if the engine's software is missing or the chip cannot compute it.
        """

    @abstractmethod
    def convert(self, linear: torch.nn.Linear, recipe: Any) -> torch.nn.Module:
        """Return the float8 counterpart of ``linear``, which has the very parameters of ``linear``."""

    @abstractmethod
    def is_converted(self, module: torch.nn.Module) -> bool:
        """Return True if ``module`` is a float8 layer of this engine."""

    def autocast(self, recipe: Any) -> AbstractContextManager[Any]:  # noqa: ARG002 - for engines that have one
        """Return the context that a forward pass needs."""
        return nullcontext()


class Float8Quantizer(ABC):
    """Software that measures the layers of one model on one chip, and quantizes them to float8 for inference.

    A distribution announces the class in the entry-point group ``northbridge.float8_inference``, by the name of its
    backend. :class:`northbridge.Float8Inference` takes that of the run's chip, or else the first by name, and makes an
    object for each model. ``settings`` are those of :meth:`settle`.
    """

    native: bool = False
    """True if it computes by the chip's operators, False if it quantizes and dequantizes by torch's; from open() on."""

    def __init__(self, chip: str) -> None:
        self.chip = chip
        """The torch device type of the run."""

    @classmethod
    @abstractmethod
    def library(cls, asked: str) -> str:
        """Return the software's name and version; imports nothing.

        Raises :class:`UnsupportedError` if it is not installed; ``asked`` is what needs it.
        """

    @abstractmethod
    def open(self) -> None:
        """Import the software; this process holds the chip's device. Raises :class:`UnsupportedError`."""

    @abstractmethod
    def settle(self, config: Mapping[str, Any], prefix: Path) -> dict[str, Any]:
        """Return the settings for a user's ``config``, with measurements in files whose paths begin with ``prefix``.

        Raises :class:`ArgumentsError` for an unknown key or value, and :class:`UnsupportedError` for one that it does
        not offer on this chip.
        """

    @abstractmethod
    def layers(self, module: torch.nn.Module) -> list[str]:
        """Return the names of the layers of ``module`` that it supports on this chip."""

    @abstractmethod
    def is_converted(self, module: torch.nn.Module) -> bool:
        """Return True if ``module`` is a layer that measures, or a quantized one; also called before open()."""

    @abstractmethod
    def measure(self, module: torch.nn.Module, settings: Mapping[str, Any], device: torch.device) -> None:
        """Let the layers of ``module`` measure the largest values of their tensors on ``device``."""

    @abstractmethod
    def finish(self, module: torch.nn.Module) -> bool:
        """Write this rank's measurements; return False if no layer has measured.

        Raises :class:`ArgumentsError` if they cannot be written.
        """

    @abstractmethod
    def restore(self, module: torch.nn.Module) -> None:
        """Put the plain layers back into the measured ``module``."""

    @abstractmethod
    def files(self, settings: Mapping[str, Any]) -> tuple[Path, ...]:
        """Return the files that this rank's measurements are read from."""

    @abstractmethod
    def quantize(self, module: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        """Quantize the layers of ``module`` by their measurements, in place. Raises :class:`UnsupportedError`."""

    @abstractmethod
    def save(self, module: torch.nn.Module, layers: Sequence[str], folder: Path) -> str:
        """Write the quantized model in ``module`` to ``folder``; return the model's name in ``module``.

        ``layers`` are those of ``module`` before it was quantized. Raises :class:`UnsupportedError` if it cannot be
        saved, and :class:`ArgumentsError` if ``folder`` has a model already.
        """

    @abstractmethod
    def load(self, module: torch.nn.Module, folder: Path, check: Callable[[str, Path, Sequence[Path]], None]) -> str:
        """Load the quantized model in ``folder`` into the one in ``module``; return its ``hp_dtype``.

        Before it changes anything, it calls ``check`` with the model's name in ``module``, ``folder`` and the files
        that have to be there. Raises :class:`UnsupportedError` if it cannot be loaded here, and
        :class:`ArgumentValueError` for files that are incomplete.
        """


def choose_engine(name: str, engines: Mapping[str, Float8Engine], asked: str | None) -> tuple[str, Float8Engine]:
    """Return the engine ``asked`` for of the backend ``name``, or its first, with the engine's name.

    Raises :class:`UnsupportedError` if ``engines`` is empty or has none of that name.
    """
    if asked is None and engines:
        asked = next(iter(engines))
    if asked is None or asked not in engines:
        offered = f"it offers {', '.join(map(repr, engines))}" if engines else "it offers no engine"
        instead = f"engine={next(iter(engines))!r}" if engines else "precision='bf16-mixed'"
        raise UnsupportedError(
            f"float8 training{f' with engine={asked!r}' if asked else ''} does not run on {name!r}: {offered}."
            f" Fix: {instead}",
            capability="float8",
        )
    return asked, engines[asked]
