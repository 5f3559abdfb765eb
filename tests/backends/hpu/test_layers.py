"""Layers that are given tensors of every layout, and their second derivatives; sdaa's cards have the same kernels."""

from __future__ import annotations

import json

from tests.backends.simulation.processes import Run

PROGRAM = """
import json, warnings
warnings.simplefilter("ignore")
from tests.ops.layouts import compare
torch.set_num_threads(1)
print(json.dumps(compare("{device}")))
"""
"""A program that compares every layer, laid out in every way, and its second derivative with the CPU's."""


def assert_equal(said: str) -> None:
    """Check what :data:`PROGRAM` printed: that enough was compared, and that nothing differs."""
    answer = json.loads(said.splitlines()[-1])
    assert answer["differences"] == []
    compared = ("output", "gradient", "second derivative", "no_grad", "inference_mode")
    assert min(answer["counts"][what] for what in compared) > 1000


def test_layouts_and_second_derivatives_are_the_cpus(run: Run) -> None:
    """An error that the CPU raises, too, comes at once."""
    assert_equal(run(PROGRAM.format(device="hpu:0"), NORTHBRIDGE_CPU_SIM_ERRORS="immediate"))
