"""The tests of what Lightning exports of a model on a chip; each chip's ``test_exports.py`` derives from the class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import Tensor, nn

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(jit|torchscript|TorchScript|legacy)"),  # torch's and Lightning's, of tracing
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:Exporting a model to ONNX with a batch_size other than 1"),
]


class Recurrent(pl.LightningModule):
    """Convolutions, and layers and cells that torch composes otherwise on a chip than on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.ConvTranspose2d(2, 3, 2), nn.Flatten(2))
        self.layers = nn.ModuleList([nn.LSTM(81, 6), nn.GRU(6, 6), nn.RNN(6, 6)])
        self.cells = nn.ModuleList([nn.GRUCell(6, 6), nn.RNNCell(6, 6)])
        self.last = nn.LSTMCell(6, 6)

    def forward(self, given: Tensor) -> Tensor:
        """Return what the last cell makes of ``given``."""
        found = self.image(given)
        # A state of zeros that torch makes itself is on the traced device wherever the file is opened.
        state = found[:1, :, :6] * 0
        for layer in self.layers:
            found, _ = layer(found, (state, state) if isinstance(layer, nn.LSTM) else state)
        found, state = found[-1], state[0]
        for cell in self.cells:
            found = cell(found, state)
        hidden: Tensor = self.last(found, (state, state))[0]
        return hidden


EXPORTED: dict[str, tuple[Any, ...]] = {
    "Conv2d": (lambda: nn.Conv2d(1, 2, 3), 4, 1, 8, 8),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 2), 4, 2, 8, 8),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), 5, 2, 3),
    "GRU": (lambda: nn.GRU(3, 4), 5, 2, 3),
    "RNN": (lambda: nn.RNN(3, 4), 5, 2, 3),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), 2, 3),
    "GRUCell": (lambda: nn.GRUCell(3, 4), 2, 3),
    "RNNCell": (lambda: nn.RNNCell(3, 4), 2, 3),
}
"""The constructor of each, and the shape of its input."""


class Exports:
    """A model that is exported from the chip is the one that is exported from the CPU."""

    @pytest.fixture
    def device(self) -> torch.device:
        """The chip's."""
        raise NotImplementedError

    @pytest.fixture
    def models(self, device: torch.device) -> list[Recurrent]:
        """The same model on the CPU and on the chip."""
        torch.manual_seed(0)
        cpus = Recurrent()
        chips = Recurrent()
        chips.load_state_dict(cpus.state_dict())
        return [cpus.eval(), chips.to(device).eval()]

    def test_to_torchscript_computes_other_input(self, models: list[Recurrent], tmp_path: Path) -> None:
        """A traced model computes with what it is given, and its file opens on the CPU."""
        first, second = torch.rand(2, 4, 1, 8, 8)
        files = [tmp_path / "cpu.pt", tmp_path / "chip.pt"]
        traced: Any = [
            model.to_torchscript(file, method="trace", example_inputs=first)
            for model, file in zip(models, files, strict=True)
        ]

        expected = traced[0](second)
        opened: Any = torch.jit.load(str(files[1]), map_location="cpu")  # type: ignore[no-untyped-call]
        assert torch.equal(traced[1](second.to(models[1].device)).cpu(), expected)
        assert torch.equal(opened(second), expected)
        assert not torch.equal(opened(first), expected)

    @pytest.mark.parametrize("name", EXPORTED)
    def test_to_onnx_exports_the_cpus_graph(self, device: torch.device, name: str) -> None:
        """torch's legacy exporter makes the CPU's graph of it, up to the file, which takes the package onnx."""
        from torch.onnx._internal.torchscript_exporter import utils

        make, *shape = EXPORTED[name]
        kinds = []
        for where in (torch.device("cpu"), device):
            graph = utils._model_to_graph(make().to(where).eval(), (torch.rand(shape, device=where),))[0]
            kinds.append([node.kind() for node in graph.nodes()])

        assert kinds[1] == kinds[0]
