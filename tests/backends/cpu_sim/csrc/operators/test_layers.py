"""Layers that are given tensors of every layout, and their second derivatives."""

from __future__ import annotations

from collections.abc import Callable

from tests.backends.hpu.test_layers import PROGRAM, assert_equal


def test_layouts_and_second_derivatives_are_the_cpus(in_fork: Callable[..., str]) -> None:
    """With a thread for the device, since fewer things can differ where the caller's thread does all."""
    assert_equal(in_fork(PROGRAM.format(device="cpu_sim:1"), NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS="1"))
