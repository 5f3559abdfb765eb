"""Endings of tests, from their errors."""

from __future__ import annotations

import pytest

from northbridge.errors import CheckpointError, UnsupportedError
from northbridge_conformance.figures import VoidError
from northbridge_conformance.runner.recorder import classify
from northbridge_conformance.runs.scenario import HungError, RunError
from northbridge_conformance.verdict import Ending


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (AssertionError("1 != 2"), Ending.FAILED),
        (UnsupportedError("no such unit", capability="float8"), Ending.REFUSED),
        (NotImplementedError("aten::bmm"), Ending.REFUSED),
        (RuntimeError("'bmm' not implemented for 'Half'"), Ending.REFUSED),
        (RuntimeError("Could not run 'aten::bmm'"), Ending.REFUSED),
        (RuntimeError("driver error 7"), Ending.FAILED),
        (CheckpointError("the disk is full"), Ending.FAILED),
        (RunError("it failed; it had said: bmm is not supported"), Ending.FAILED),
        (VoidError("it varies"), Ending.VOID),
        (HungError("it did not end"), Ending.HUNG),
        (pytest.skip.Exception("one device is here"), Ending.FORBIDDEN),
    ],
)
def test_an_ending_is_what_was_raised(error: BaseException, ending: Ending) -> None:
    assert classify(error) is ending
