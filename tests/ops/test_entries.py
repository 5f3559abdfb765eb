"""The list of entries."""

from __future__ import annotations

import subprocess
import sys

from tests.ops.entries import ROOT, Entry

LISTED = """
from torch import nn
from tests.ops.layers import kinds
from tests.ops.unlisted_layers import CONTAINERS, NOT_LAYERS
every = {x for x in vars(nn).values() if isinstance(x, type) and issubclass(x, nn.Module)}
print(sorted(x.__name__ for x in every - kinds() - CONTAINERS - set(NOT_LAYERS)))
"""


def test_every_layer_of_torch_nn_is_an_entry() -> None:
    command = [sys.executable, "-W", "ignore", "-c", LISTED]

    assert subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout == "[]\n"


def test_the_tenth_is_chosen_by_name_alone() -> None:
    names = [str(i) for i in range(2000)]

    chosen = [name for name in names if Entry("operator", name, "float32").in_tenth]

    assert chosen == [name for name in names if Entry("layer", name, "float32").in_tenth]
    assert 140 < len(chosen) < 260
