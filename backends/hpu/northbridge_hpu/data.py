"""The vendor's loader of images, which says which path it takes, and raises where the vendor's would use torch's."""

from __future__ import annotations

import io
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import northbridge

if TYPE_CHECKING:
    from typing_extensions import Self

_FALLBACK = "DATALOADER_FALLBACK_EN"
_PATHS = {"iterator": "the media pipe", "aeon": "aeon, on the host"}
"""The attribute that the vendor's loader has on each of its paths."""

_COMPLAINTS = ("Warning:", "Failed", "Fallback", "import HPUMediaPipe error:")
"""How the vendor's prints begin about an argument that is ignored, or a path that is not taken."""


class HabanaDataLoader:
    """The vendor's ``habana_dataloader.HabanaDataLoader``, with its arguments. Create it in ``train_dataloader()``.

    ``path`` is how it loads, and ``reason`` why. What the vendor only prints about its arguments is a warning. Raises
    :class:`northbridge.UnsupportedError` where the vendor's class would use torch's DataLoader: on a Gaudi 3, for a
    data set that is not a torchvision ImageFolder or COCO 2017, and for arguments that its loader does not accept.
    Raises :class:`northbridge.SoftwareMissingError` without the vendor's package.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._card = northbridge.load("hpu").device.label(0)
        dataset = kwargs.get("dataset", args[0] if args else None)
        self._loader, said = _build(args, kwargs, type(dataset).__name__, self._card, known=_is_known(dataset))
        complaints = [line for line in said.splitlines() if line.startswith(_COMPLAINTS)]
        attribute = next(name for name in _PATHS if hasattr(self._loader.dataloader, name))
        self.path: str = _PATHS[attribute]
        self.reason: str = _reason(self._card, attribute)
        self._ranks = world_size()
        for line in complaints:
            warnings.warn(f"HabanaDataLoader: {line.removeprefix('Warning:').strip()}", stacklevel=2)
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"HabanaDataLoader: {self.path}: {self.reason}")

    def __iter__(self) -> Iterator[Any]:
        if world_size() != self._ranks:
            raise northbridge.ArgumentsError(
                f"HabanaDataLoader was created when world_size was {self._ranks}, and it is {world_size()}: each rank"
                " would read data of others. Fix: create it in train_dataloader(), which Lightning calls on each rank"
            )
        yield from iter(self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __repr__(self) -> str:
        return f"<HabanaDataLoader: {self.path}: {self.reason}>"


def _build(args: tuple[Any, ...], kwargs: dict[str, Any], kind: str, card: str, *, known: bool) -> tuple[Any, str]:
    """Return the vendor's loader and what it printed."""
    try:
        import habana_dataloader
    except ImportError as error:
        raise northbridge.SoftwareMissingError(
            f"HabanaDataLoader needs the vendor's package habana_dataloader: {error}. Fix: install it, or use"
            " torch's DataLoader",
            backend="hpu",
        ) from error
    loader: Any = None
    refused = ""
    with _one_at_a_time, northbridge.keep_environment((_FALLBACK,)), _Prints() as printed:
        os.environ[_FALLBACK] = ""  # the vendor tests whether it is empty
        try:
            loader = habana_dataloader.HabanaDataLoader(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the vendor's: any error would be its reason to use torch's
            refused = _printed_reason(printed) or str(error)
        else:
            # The loader of image folders does not read the variable.
            if not any(hasattr(loader.dataloader, attribute) for attribute in _PATHS):
                refused = _printed_reason(printed) or "the vendor says no reason"
    if refused:
        reason = refused if known else "it loads only a torchvision ImageFolder or COCO 2017"
        raise northbridge.UnsupportedError(
            f"HabanaDataLoader cannot load {kind} on {card}: {reason}. The vendor's would use torch's. Fix:"
            " torch.utils.data.DataLoader",
            capability="data_loaders",
        )
    return loader, printed.getvalue()


class _Prints(io.StringIO):
    """What this thread prints inside the ``with``; the text of other threads still goes to standard output."""

    def __enter__(self) -> Self:
        self._thread: int | None = threading.get_ident()
        self._out, sys.stdout = sys.stdout, self
        return self

    def __exit__(self, *_: object) -> None:
        self._thread = None  # another thread may have kept this object
        if sys.stdout is self:
            sys.stdout = self._out

    def write(self, text: str) -> int:
        return super().write(text) if threading.get_ident() == self._thread else self._out.write(text)

    def flush(self) -> None:
        self._out.flush()


_one_at_a_time = threading.Lock()


def _printed_reason(printed: io.StringIO) -> str:
    return printed.getvalue().partition("error: ")[2].partition("\n")[0]


def _is_known(dataset: Any) -> bool:
    """Return True for the data sets that the vendor's loaders know; its package needs torchvision, ours does not."""
    of_images = any(
        cls.__name__ in ("ImageFolder", "ImageFolderWithManifest")
        and cls.__module__.partition(".")[0] in ("torchvision", "habana_dataloader")
        for cls in type(dataset).__mro__
    )
    info = getattr(dataset, "data", None)
    about = info.get("info", {}).get("description", "") if isinstance(info, dict) else ""
    return of_images or "COCO 2017 Dataset" in str(about)


def _reason(card: str, attribute: str) -> str:
    if attribute == "iterator":
        return f"{card} decodes images itself"
    asked = os.environ.get("PT_HPU_MEDIA_PIPE")
    if asked is not None and asked.lower() in ("false", "0", "f"):
        return f"PT_HPU_MEDIA_PIPE={asked}"
    return f"{card} has no media pipe" if card == "GAUDI" else "the media pipe was not available"


def world_size() -> int:
    """Return the number of ranks of this process's group; 1 without a group."""
    import torch.distributed

    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if there else 1
