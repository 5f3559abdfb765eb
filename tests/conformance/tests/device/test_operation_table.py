"""The table of operations is one of torch's operations, each of them once and of some use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from northbridge_conformance.tests.device.operation import EXACT, Operation
from northbridge_conformance.tests.device.operation_table import OPERATIONS
from northbridge_conformance.tests.device.operations import compute

PROGRAM = """
from torch.testing._internal.common_methods_invocations import op_db
print("\\n".join(entry.name for entry in op_db))
"""

NAMES = [operation.name for operation in OPERATIONS]


def test_there_are_at_least_150_of_them_each_once() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 150


def test_at_least_150_of_them_have_gradients() -> None:
    assert sum(operation.differentiable for operation in OPERATIONS) >= 150


def test_they_are_called_as_in_torchs_own_database() -> None:
    # In a process of its own: what builds the database changes settings of torch.
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    ).stdout

    assert set(NAMES) - set(said.splitlines()) == set()


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_it_computes_on_the_cpu_and_twice_the_same(operation: Operation) -> None:
    results, slopes = compute(operation, "cpu")
    again, slopes_again = compute(operation, "cpu")

    assert results
    assert bool(slopes) == operation.differentiable
    assert str(results) == str(again)
    assert str(slopes) == str(slopes_again)


def test_no_tolerance_is_looser_than_a_hundredth() -> None:
    assert max(operation.within.relative for operation in OPERATIONS) <= 0.01
    assert max(operation.within.absolute for operation in OPERATIONS) <= 0.01


def test_what_only_moves_numbers_is_allowed_no_difference() -> None:
    exact = {operation.name for operation in OPERATIONS if operation.within == EXACT}

    assert {"cat", "transpose", "sort", "argmax", "eq", "where"} <= exact
