"""Tensors of the chip in copies, pickles and files."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch


def test_copies_and_pickles_stay_on_their_device(chip: ModuleType) -> None:
    x = torch.arange(4.0, device="cpu_sim:2", requires_grad=True)
    module = torch.nn.Linear(2, 2).to("cpu_sim:2")

    for clone in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert clone.device == x.device
        assert clone.requires_grad
        assert torch.equal(clone, x)
    assert copy.deepcopy(module).weight.device == module.weight.device


def test_file_saved_on_the_chip_opens_there_and_on_cpu(chip: ModuleType, tmp_path: Path) -> None:
    x = torch.arange(4.0, device="cpu_sim:2")
    torch.save({"x": x, "view": x[1:]}, tmp_path / "x.pt")

    there = torch.load(tmp_path / "x.pt")
    here = torch.load(tmp_path / "x.pt", map_location="cpu", weights_only=True)
    elsewhere = torch.load(tmp_path / "x.pt", map_location="cpu_sim:1")

    assert there["x"].device == torch.device("cpu_sim:2")
    assert elsewhere["view"].device == torch.device("cpu_sim:1")
    assert there["view"].tolist() == here["view"].tolist() == [1.0, 2.0, 3.0]
    there["x"][1] = 8.0
    assert there["view"][0].item() == 8.0


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "cpu_sim:2"),
        ("cpu_sim", "cpu_sim:0"),
        ("a device", "cpu_sim:3"),
        ({"cpu_sim:2": "cpu_sim:5"}, "cpu_sim:5"),
        ({"cpu_sim:2": "cpu"}, "cpu"),
        (lambda storage, place: storage.cpu_sim(4) if place == "cpu_sim:2" else storage, "cpu_sim:4"),
        (lambda storage, place: storage, "cpu"),
        ("meta", "meta"),
    ],
    ids=["none", "type", "device", "table", "table to cpu", "function", "function of nothing", "meta"],
)
def test_a_file_opens_where_map_location_says(
    chip: ModuleType, tmp_path: Path, where: Any, expected: str, weights_only: bool
) -> None:
    module = torch.nn.Linear(2, 2, device="cpu_sim:2")
    file = tmp_path / "module.pt"
    if where == "a device":
        where = torch.device("cpu_sim:3")  # not known yet when the tests are collected
    torch.save({"state": module.state_dict(), "parameter": module.weight}, file)

    opened = torch.load(file, map_location=where, weights_only=weights_only)

    for tensor in (*opened["state"].values(), opened["parameter"]):
        assert str(tensor.device) == expected
    if expected != "meta":
        assert torch.equal(opened["parameter"].cpu(), module.weight.cpu())


def test_a_file_is_mapped_and_an_old_one_is_read(chip: ModuleType, tmp_path: Path) -> None:
    x = torch.arange(4.0, device="cpu_sim:2")
    torch.save(x, tmp_path / "new.pt")
    torch.save(x, tmp_path / "old.pt", _use_new_zipfile_serialization=False)

    for opened in (torch.load(tmp_path / "new.pt", mmap=True), torch.load(tmp_path / "old.pt")):
        assert opened.device == x.device
        assert torch.equal(opened, x)


def test_a_file_of_a_device_that_is_not_there_says_so(chip: ModuleType) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(1, device="cpu_sim:7"), file)
    file.seek(0)

    with pytest.raises(RuntimeError, match=r"device 9 but torch\.cpu_sim\.device_count\(\) is 8"):
        torch.load(file, map_location="cpu_sim:9")
