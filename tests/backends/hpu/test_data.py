"""HabanaDataLoader: which path it takes, and what it refuses where the vendor's would use torch's DataLoader."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import northbridge
import northbridge_hpu
from northbridge.errors import ArgumentsError, SoftwareMissingError, UnsupportedError
from northbridge_hpu import HabanaDataLoader
from northbridge_hpu.data import _Prints

pytestmark = pytest.mark.usefixtures("hpu")
AEON = {"num_workers": 8, "pin_memory": True}


class ImageFolder(Dataset[Any]):
    """Pictures in a folder, as torchvision's, which the tests do not install."""

    def __init__(self, root: Path) -> None:
        self.root, self.transform = str(root), None
        self.imgs = sorted(root.glob("*.png"))

    def __len__(self) -> int:
        return len(self.imgs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([float(Image.open(self.imgs[index]).getpixel((0, 0)))]), index  # type: ignore[arg-type]


ImageFolder.__module__ = "torchvision.datasets.folder"


@pytest.fixture
def pictures(tmp_path: Path) -> ImageFolder:
    """Ten gray pictures, each of its own brightness."""
    for number in range(10):
        Image.new("L", (2, 2), number).save(tmp_path / f"{number}.png")
    return ImageFolder(tmp_path)


@pytest.mark.shows("the path of the vendor's loader")
def test_the_second_generation_decodes_on_the_card(pictures: ImageFolder, capsys: pytest.CaptureFixture[str]) -> None:
    loader = HabanaDataLoader(pictures, batch_size=4, drop_last=True, prefetch_factor=3)

    assert capsys.readouterr().out == "HabanaDataLoader: the media pipe: GAUDI2 decodes images itself\n"
    assert repr(loader) == "<HabanaDataLoader: the media pipe: GAUDI2 decodes images itself>"
    assert len(loader) == 2
    for _ in range(2):  # each epoch has all of them again
        batches = list(loader)
        assert [str(images.device) for images, _ in batches] == ["hpu:0", "hpu:0"]
        assert [label for _, labels in batches for label in labels.tolist()] == list(range(8))


@pytest.fixture
def set_variables(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Set variables; a generation among them is that of the cards in this test."""
    device: Any = northbridge.load("hpu").device
    assert device.generation == 2

    def put(environ: dict[str, str]) -> None:
        for variable, value in environ.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.delitem(vars(device), "generation")

    return put


Put = Callable[[dict[str, str]], None]


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"NORTHBRIDGE_HPU_SIM_GENERATION": "1"}, "GAUDI has no media pipe"),
        ({"PT_HPU_MEDIA_PIPE": "false"}, "PT_HPU_MEDIA_PIPE=false"),
    ],
)
def test_other_cases_decode_on_the_host(
    pictures: ImageFolder, set_variables: Put, environ: dict[str, str], reason: str
) -> None:
    set_variables(environ)

    loader = HabanaDataLoader(pictures, batch_size=5, **AEON)

    assert (loader.path, loader.reason) == ("aeon, on the host", reason)
    assert [images.device.type for images, _ in loader] == ["cpu", "cpu"]


def test_prints_of_other_threads_are_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    out = sys.stdout
    with ThreadPoolExecutor(1) as pool:
        with _Prints() as printed:
            print("mine")
            pool.submit(print, "theirs").result()
        print("after", file=printed)  # another thread may have kept it as its standard output

    assert sys.stdout is out
    assert printed.getvalue() == "mine\n"
    assert capsys.readouterr().out == "theirs\nafter\n"


@pytest.mark.shows("the arguments of the vendor's loader")
def test_arguments_that_the_media_pipe_ignores_are_warned_of(pictures: ImageFolder) -> None:
    sampler: Any = DistributedSampler(pictures, num_replicas=2, rank=0)

    with pytest.warns(UserWarning, match="^HabanaDataLoader: ") as caught:
        HabanaDataLoader(pictures, batch_size=4, sampler=sampler, num_workers=3)

    assert [str(each.message).removeprefix("HabanaDataLoader: ") for each in caught] == [
        "shuffle is True, as the sampler is a DistributedSampler",
        "the sampler is ignored: DistributedSampler",
        "num_workers is ignored: 3",
        "drop_last is False: the last batch is filled up",
        "prefetch_factor is 3",
    ]
    assert caught[0].filename == __file__


REFUSED = "The vendor's would use torch's. Fix: torch.utils.data.DataLoader"


@pytest.mark.parametrize(
    ("environ", "arguments", "reason"),
    [
        ({"NORTHBRIDGE_HPU_SIM_GENERATION": "3"}, {}, "ImageFolder on GAUDI3: Unsupported device"),
        ({}, {"collate_fn": len}, "ImageFolder on GAUDI2: 'collate_fn' is supported only as None"),
        ({"PT_HPU_MEDIA_PIPE": "0"}, {}, "ImageFolder on GAUDI2: 'pin_memory' is supported only as True"),
        (
            {},
            {"dataset": TensorDataset(torch.ones(4))},
            "TensorDataset on GAUDI2: it loads only a torchvision ImageFolder or COCO 2017",
        ),
    ],
)
def test_what_would_be_loaded_with_torch_is_refused(
    pictures: ImageFolder, set_variables: Put, environ: dict[str, str], arguments: dict[str, Any], reason: str
) -> None:
    set_variables(environ)

    with pytest.raises(UnsupportedError) as raised:
        HabanaDataLoader(**{"dataset": pictures, "batch_size": 4, **arguments})

    assert str(raised.value) == f"HabanaDataLoader cannot load {reason}. {REFUSED}"
    assert "DATALOADER_FALLBACK_EN" not in os.environ


def test_coco_is_loaded_too(pictures: ImageFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    coco: Any = TensorDataset(torch.arange(6.0), torch.arange(6))
    coco.data = {"info": {"description": "COCO 2017 Dataset"}}
    monkeypatch.setenv("PT_HPU_ENABLE_MEDIA_PIPE_SSD_MULTI_CARD", "1")

    loader = HabanaDataLoader(coco, batch_size=3, drop_last=True, prefetch_factor=3, shuffle=False)

    assert loader.path == "the media pipe"
    assert torch.cat([images for images, _ in loader]).tolist() == list(range(6))


def test_the_vendors_own_class_falls_back_with_a_print(hpu: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """So the refusals above are needed."""
    import habana_dataloader

    loader = habana_dataloader.HabanaDataLoader(TensorDataset(torch.ones(4)), batch_size=2)

    assert type(loader.dataloader) is DataLoader
    assert [next(iter(loader))[0].device.type, len(loader)] == ["cpu", 2]
    assert capsys.readouterr().out.endswith("Running with PyTorch Dataloader\n")


def test_without_the_vendors_package_it_says_what_to_install(
    pictures: ImageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "habana_dataloader", None)

    with pytest.raises(SoftwareMissingError, match=r"needs the vendor's package habana_dataloader: .* Fix: install it"):
        HabanaDataLoader(pictures)


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let this process be a rank of two, from the call on."""

    def meet(rank: int) -> None:
        for name, answer in {"is_initialized": True, "get_world_size": 2, "get_rank": rank}.items():
            monkeypatch.setattr(dist, name, lambda answer=answer: answer)

    return meet


@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_reads_its_part(pictures: ImageFolder, two_ranks: Callable[[int], None], rank: int) -> None:
    early = HabanaDataLoader(pictures, batch_size=4, drop_last=True, prefetch_factor=3)
    two_ranks(rank)

    loader = HabanaDataLoader(pictures, batch_size=2, drop_last=True, prefetch_factor=3)

    assert len(loader) == 2
    assert [label for _, labels in loader for label in labels.tolist()] == [rank, rank + 2, rank + 4, rank + 6]
    with pytest.raises(ArgumentsError) as raised:
        next(iter(early))
    assert str(raised.value) == (
        "HabanaDataLoader was created when world_size was 1, and it is 2: each rank would read data of others. Fix:"
        " create it in train_dataloader(), which Lightning calls on each rank"
    )


def test_the_data_module_says_what_to_write() -> None:
    module: Any = northbridge_hpu.HPUDataModule

    with pytest.raises(UnsupportedError) as raised:
        module("imagenet")

    assert str(raised.value) == (
        "HPUDataModule is not a class of Northbridge, which has 'data_loaders' on 'hpu' without it. Fix: in"
        " train_dataloader() of a LightningDataModule, return HabanaDataLoader(ImageFolder(…), batch_size=32)"
    )
