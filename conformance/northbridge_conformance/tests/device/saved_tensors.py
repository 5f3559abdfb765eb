"""Tensors of the chip in files, in pickles and in copies."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import torch
from torch import nn

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.tests.device.one_device import OneDevice


class SavedTensors(OneDevice):
    """A tensor saved on the chip opens there, on the CPU and on another device, unchanged."""

    advice = (
        "torch.load asks torch.<type> for what it needs to open a file on the chip; tensors without a storage of their"
        " own kind are pickled through the CPU. Both belong to your torch plugin."
    )

    @pytest.mark.parametrize("where", ["cpu", "chip", "nowhere", "function"])
    def test_saved_tensor_loads_with_map_location(self, device: torch.device, where: str) -> None:
        ways: dict[str, Any] = {
            "cpu": torch.device("cpu"),
            "chip": device,
            "nowhere": None,
            "function": lambda storage, _location: storage,
        }
        file = io.BytesIO()
        torch.save({"weight": torch.arange(6.0, device=device).view(2, 3).t(), "step": 3}, file)
        file.seek(0)

        found = torch.load(file, map_location=ways[where], weights_only=True)

        on_chip = where in ("chip", "nowhere")
        assert found["weight"].device == (device if on_chip else torch.device("cpu"))
        assert found["weight"].tolist() == [[0, 3], [1, 4], [2, 5]]
        assert found["step"] == 3

    def test_tensor_saved_on_the_cpu_loads_on_the_device(self, device: torch.device) -> None:
        file = io.BytesIO()
        torch.save([torch.arange(3), torch.ones(2, dtype=torch.bfloat16), torch.tensor(True)], file)
        file.seek(0)

        found = torch.load(file, map_location=device, weights_only=True)

        assert [each.device for each in found] == [device] * 3
        assert [each.dtype for each in found] == [torch.int64, torch.bfloat16, torch.bool]
        assert [each.tolist() for each in found] == [[0, 1, 2], [1, 1], True]

    def test_saved_tensor_loads_on_another_device(self, device: torch.device, other: torch.device, alone: bool) -> None:
        file = io.BytesIO()
        torch.save(torch.arange(3.0, device=device), file)
        file.seek(0)

        if alone:
            with pytest.raises((RuntimeError, AssertionError)):  # AssertionError if the vendor's module asserts
                torch.load(file, map_location=other, weights_only=True)
            return
        found = torch.load(file, map_location={str(device): str(other)}, weights_only=True)

        assert found.device == other
        assert found.tolist() == [0, 1, 2]

    def test_loaded_tensors_share_memory_as_saved_ones_did(self, device: torch.device) -> None:
        whole = torch.zeros(4, device=device)
        file = io.BytesIO()
        torch.save([whole, whole[2:]], file)
        file.seek(0)

        found = torch.load(file, map_location=device, weights_only=True)
        found[1].fill_(7)

        assert found[0].tolist() == [0, 0, 7, 7]

    def test_pickle_keeps_tensors_and_parameters(self, device: torch.device) -> None:
        tensor = torch.arange(6.0, device=device).view(2, 3).t()
        parameter = nn.Parameter(torch.ones(2, device=device), requires_grad=False)

        found, copied = pickle.loads(pickle.dumps((tensor, parameter)))

        assert found.device == device
        assert found.tolist() == tensor.tolist()
        assert isinstance(copied, nn.Parameter)
        assert copied.device == device
        assert not copied.requires_grad

    def test_deepcopy_is_independent(self, device: torch.device) -> None:
        original = nn.Parameter(torch.ones(2, device=device))

        copied = copy.deepcopy(original)
        with torch.no_grad():
            copied.zero_()

        assert copied.device == device
        assert isinstance(copied, nn.Parameter)
        assert original.tolist() == [1, 1]

    def test_copied_module_keeps_tied_weights(self, device: torch.device) -> None:
        pair = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(device)
        pair[1].weight = pair[0].weight

        mine, copies = list(pair.parameters()), list(copy.deepcopy(pair).parameters())

        assert len(copies) == len(mine) == 3
        assert all(copied is not own for copied, own in zip(copies, mine, strict=True))
        assert [copied.tolist() for copied in copies] == [own.tolist() for own in mine]
