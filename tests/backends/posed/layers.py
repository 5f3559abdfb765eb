"""The layers of torch.nn on a posing chip, beside the CPU's.

A chip's ``test_layers.py`` takes the class of this module for its own.
"""

from __future__ import annotations

import json
from types import ModuleType

import pytest
from tests.backends.posed.chip import PosedChip
from tests.backends.posed.processes import Run

IN_EVERY_LAYOUT = """
import json, warnings
warnings.simplefilter("ignore")
from tests.ops.layouts import compare
torch.set_num_threads(1)
print(json.dumps(compare("{device}")))
"""
"""A program that compares every layer, laid out in every way, and its second derivative with the CPU's."""


def assert_equal(said: str) -> None:
    """Check what :data:`IN_EVERY_LAYOUT` printed: that enough was compared, and that nothing differs."""
    answer = json.loads(said.splitlines()[-1])
    assert answer["differences"] == []
    assert min(answer["counts"][what] for what in ("output", "gradient", "second derivative")) > 1000


class TestLayers:
    def test_layouts_and_second_derivatives_are_the_cpus(self, posed: PosedChip, run: Run) -> None:
        assert_equal(run(IN_EVERY_LAYOUT.format(device=f"{posed.name}:0")))

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
    @pytest.mark.parametrize("norm", [False, True])
    def test_padded_sequences_are_encoded_as_on_the_cpu(self, posed: PosedChip, loaded: ModuleType, norm: bool) -> None:
        from tests.core.test_nested_tensors import assert_encodes_padding

        assert_encodes_padding(posed.name, norm)
        assert loaded.is_available()
