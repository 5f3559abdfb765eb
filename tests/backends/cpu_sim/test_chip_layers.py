"""Layers that are given tensors of every layout, and their second derivatives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.backends.posed.layers import IN_EVERY_LAYOUT, assert_equal


@pytest.mark.parametrize("threads", ["1"], ids=["device threads"])
def test_layouts_and_second_derivatives_are_the_cpus(in_fork: Callable[..., str], threads: str) -> None:
    """The chip without threads of its own runs the same layers in fewer ways: those that it had to be mended for."""
    assert_equal(in_fork(IN_EVERY_LAYOUT.format(device="cpu_sim:1"), NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS=threads))
