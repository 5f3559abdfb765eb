"""The vendor's loader of images."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

import northbridge
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import OneDevice

_PICTURES = 6


class ImageLoaders(OneDevice):
    """The vendor's loader returns each picture of a folder with its label, in each epoch."""

    advice = (
        "Look at the parts into which Acceleration.image_loader() divides the data set, and at the start of its second"
        ' epoch. Without such a loader, claim data_loaders=northbridge.no("the reason").'
    )

    @shows("data_loaders")
    def test_each_image_comes_once_per_epoch(self, backend: str, device: torch.device, tmp_path: Path) -> None:
        loaded = northbridge.load(backend)
        loader = loaded.acceleration.image_loader(_write_pictures(tmp_path), batch_size=2, drop_last=True)

        for _epoch in range(2):
            batches = [(images.cpu(), labels.cpu()) for images, labels in loader]
            assert [len(images) for images, _ in batches] == [2] * (_PICTURES // 2)
            labels = torch.cat([labels.flatten() for _, labels in batches]).long()
            assert sorted(labels.tolist()) == list(range(_PICTURES))
            brightness = torch.cat([images.float().flatten(1).mean(1) for images, _ in batches])
            assert labels[brightness.argsort()].tolist() == list(range(_PICTURES)), "a picture has another's label"


def _write_pictures(folder: Path) -> Dataset[Any]:
    """Return a data set of gray pictures, one for each label. A higher label is brighter."""
    grays = {folder / str(label): 40 * label for label in range(_PICTURES)}
    for place in grays:
        place.mkdir()
    try:
        image: Any = import_module("PIL.Image")
        transforms: Any = import_module("torchvision.transforms")
        datasets: Any = import_module("torchvision.datasets")
    except ImportError:
        for place, gray in grays.items():
            (place / "gray.ppm").write_bytes(b"P6 2 2 255\n" + bytes([gray]) * 12)
        return ImageFolder(folder)
    for place, gray in grays.items():
        image.new("RGB", (256, 256), (gray,) * 3).save(place / "gray.jpg")
    resized = [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]
    pictures: Dataset[Any] = datasets.ImageFolder(str(folder), transforms.Compose(resized))
    return pictures


class ImageFolder(Dataset[tuple[torch.Tensor, int]]):
    """A folder of pictures with the name and the attributes of torchvision's, where torchvision is not installed."""

    transform: None = None

    def __init__(self, root: Path) -> None:
        self.root: str = str(root)
        self.imgs: list[tuple[str, int]] = [(str(path), int(path.parent.name)) for path in sorted(root.glob("*/*.ppm"))]

    def __len__(self) -> int:
        return len(self.imgs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.imgs[index]
        pixels = bytearray(Path(path).read_bytes().partition(b"\n")[2])
        return torch.frombuffer(pixels, dtype=torch.uint8).reshape(2, 2, 3).permute(2, 0, 1) / 255, label


ImageFolder.__module__ = "torchvision.datasets.folder"  # a vendor's loader may go by it
