"""The vendor's loader: which path it chooses, which arguments it accepts, and where it uses torch's without an error.

Images are decoded by the data set, on the CPU. Only the choice, the ranks' parts and the place of a batch are the
vendor's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, RandomSampler, default_collate
from torch.utils.data.distributed import DistributedSampler

from northbridge_hpu.simulated.machine import RECORD, _get_device_type, synDeviceType, variable

_EACH = {
    "batch_sampler": None,
    "collate_fn": None,
    "timeout": 0,
    "worker_init_fn": None,
    "multiprocessing_context": None,
    "generator": None,
    "persistent_workers": False,
}
_AEON = {**_EACH, "shuffle": False, "num_workers": 8, "pin_memory": True, "prefetch_factor": 2}


class LoaderChoice:
    """Chooses a loader by the data set and the generation; any error ends in torch's DataLoader."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        RECORD.note("habana_dataloader.HabanaDataLoader", "call")
        dataset = kwargs.get("dataset", args[0] if args else None)
        kind: Any = ImageLoader if _is_image_folder(dataset) or _is_coco(dataset) else None
        try:
            self.dataloader = kind(*args, **kwargs)
        except Exception as error:
            fallback = variable("DATALOADER_FALLBACK_EN")
            if fallback is not None and not fallback:
                print(f"Habana dataloader configuration failed: {error}")
                raise
            print(f"Failed to initialize Habana Dataloader, error: {error}\nRunning with PyTorch Dataloader")
            self.dataloader = DataLoader(*args, **kwargs)

    def __iter__(self) -> LoaderChoice:
        self.iter = iter(self.dataloader)
        return self

    def __next__(self) -> Any:
        return next(self.iter)

    def __len__(self) -> int:
        return len(self.dataloader)


class ImageLoader(DataLoader[Any]):
    """A loader of the vendor's, or torch's own if an image folder's arguments or the card are not as it wants."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        asked = {**dict(zip(("dataset", "batch_size", "shuffle", "sampler"), args, strict=False)), **kwargs}
        self.fallback_activated = False
        try:
            ranks = dist.get_world_size() if dist.is_initialized() else 1
            rank = dist.get_rank() if dist.is_initialized() else 0
            if _uses_aeon(asked["dataset"], ranks):
                _enforce(asked, _AEON, required="pin_memory")
                self.aeon = _Batches(asked, rank, ranks, device="cpu", shuffle=False)
            elif _get_device_type() == synDeviceType.synDeviceGaudi2:
                self.iterator = _Batches(asked, rank, ranks, device="hpu", shuffle=_read_for_media_pipe(asked))
            else:
                raise ValueError("Unsupported device")
        except ValueError as error:
            if _is_coco(asked["dataset"]):
                raise
            print(f"Failed to initialize Habana Dataloader, error: {error}\nRunning with PyTorch Dataloader")
            self.fallback_activated = True
            super().__init__(*args, **kwargs)

    @property
    def _source(self) -> _Batches | None:
        return getattr(self, "aeon", None) or getattr(self, "iterator", None)

    def __len__(self) -> int:
        return super().__len__() if self._source is None else len(self._source)

    def __iter__(self) -> Any:
        return super().__iter__() if self._source is None else iter(self._source)


class _Batches:
    """The batches of one rank. A last batch that is not full is filled up from the beginning."""

    def __init__(self, asked: dict[str, Any], rank: int, ranks: int, *, device: str, shuffle: bool) -> None:
        self._dataset, self._size = asked["dataset"], int(asked.get("batch_size", 1))
        self._drop, self._device, self._shuffle = bool(asked.get("drop_last", False)), device, shuffle
        self._part = list(range(rank, len(self._dataset), ranks))

    def __len__(self) -> int:
        full, rest = divmod(len(self._part), self._size)
        return full + bool(rest and not self._drop)

    def __iter__(self) -> Iterator[Any]:
        order = torch.randperm(len(self._part)).tolist() if self._shuffle else range(len(self._part))
        indices = [self._part[each] for each in order]
        indices += indices[: self._size]
        for number in range(len(self)):
            chosen = indices[number * self._size : (number + 1) * self._size]
            images, labels = default_collate([self._dataset[index] for index in chosen])
            yield images.to(self._device), labels.to(self._device)


def _is_image_folder(dataset: Any) -> bool:
    # By name: the vendor's package imports torchvision, and the simulation does not need it.
    return any(cls.__name__ in ("ImageFolder", "ImageFolderWithManifest") for cls in type(dataset).__mro__)


def _is_coco(dataset: Any) -> bool:
    try:
        return "COCO 2017 Dataset" in dataset.data["info"]["description"]
    except Exception:  # noqa: BLE001 - so does the vendor's
        return False


def _uses_aeon(dataset: Any, ranks: int) -> bool:
    media_is_off = (variable("PT_HPU_MEDIA_PIPE") or "").lower() in ("false", "0", "f")
    if not media_is_off and ranks > 1 and _is_coco(dataset):
        several = (variable("PT_HPU_ENABLE_MEDIA_PIPE_SSD_MULTI_CARD") or "").lower() in ("true", "1", "t")
        media_is_off = not several and _get_device_type() == synDeviceType.synDeviceGaudi2
    return media_is_off or _get_device_type() == synDeviceType.synDeviceGaudi


def _enforce(asked: dict[str, Any], accepted: dict[str, Any], required: str = "") -> None:
    for name, value in accepted.items():
        given = asked.get(name)
        if given != value and (given is not None or name == required):
            raise ValueError(f"'{name}' is supported only as {value}")


def _read_for_media_pipe(asked: dict[str, Any]) -> bool:
    """Print which arguments are ignored, and return whether to shuffle."""
    sampler, shuffle = asked.get("sampler"), asked.get("shuffle")
    if shuffle is None:
        shuffle = isinstance(sampler, RandomSampler) or (isinstance(sampler, DistributedSampler) and sampler.shuffle)
        if shuffle:
            print(f"Warning: shuffle is True, as the sampler is a {type(sampler).__name__}")
    if sampler is not None:
        print(f"Warning: the sampler is ignored: {type(sampler).__name__}")
    _enforce(asked, _EACH)
    if asked.get("num_workers", 0) != 0:
        print(f"Warning: num_workers is ignored: {asked['num_workers']}")
    if not asked.get("drop_last", False):
        print("Warning: drop_last is False: the last batch is filled up")
    if "prefetch_factor" not in asked:
        print("Warning: prefetch_factor is 3")
    return bool(shuffle)


STAND_INS = RECORD.watched({"habana_dataloader": {"HabanaDataLoader": LoaderChoice}})
