"""Layers that are given tensors of every layout, and their second derivatives; all chips have the same kernels."""

from __future__ import annotations

import json
from collections.abc import Callable

PROGRAM = """
import json, warnings
warnings.simplefilter("ignore")
from tests.ops.layouts import compare
torch.set_num_threads(1)
print(json.dumps(compare("cpu_sim:1")))
"""
"""A program that compares every layer, laid out in every way, and its second derivative with the CPU's."""


def test_layouts_and_second_derivatives_are_the_cpus(in_fork: Callable[..., str]) -> None:
    """With a thread for the device, since fewer things can differ where the caller's thread does all."""
    said = in_fork(PROGRAM, NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS="1")

    answer = json.loads(said.splitlines()[-1])
    assert answer["differences"] == []
    compared = ("output", "gradient", "second derivative", "no_grad", "inference_mode")
    assert min(answer["counts"][what] for what in compared) > 1000
