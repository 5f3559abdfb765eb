"""Precisions and dtypes that a Gaudi computes, does not compute, or computes as others; and what it logs of itself."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.simulation.runs.fixtures import Start

DOUBLE = (
    "the parameter 'scale' is float64, and 'hpu' has no float64: it is stored as float64 and computed as float32"
    " there; make it float32, or keep to values that fit"
)
LONG = (
    "and 'hpu' has no int64: it is held as int32 there; class labels and token ids fit; a number beyond 2^31 does not"
)


@pytest.mark.parametrize(
    ("precision", "generation", "sentence"),
    [
        (
            "16-mixed",
            "1",
            (
                "precision='16-mixed': 'hpu' has no float16: the first generation of Gaudi has none. Fix:"
                " precision='bf16-mixed'"
            ),
        ),
        (
            "64-true",
            "2",
            (
                "precision='64-true': 'hpu' has no float64: it is stored as float64 and computed as float32"
                " there. Fix: precision='32-true'"
            ),
        ),
    ],
)
def test_a_precision_it_lacks_is_refused(start: Start, precision: str, generation: str, sentence: str) -> None:
    job = start("dtypes.py", f"precision={precision}", NORTHBRIDGE_HPU_SIM_GENERATION=generation)

    assert job.end() == 1, job.said
    assert f"northbridge.errors.UnsupportedError: {sentence}\n" in job.said


@pytest.mark.parametrize("generation", ["1", "2"])
def test_the_one_that_is_advised_trains(run: Callable[..., str], generation: str) -> None:
    said = run("dtypes.py", "precision=bf16-mixed", NORTHBRIDGE_HPU_SIM_GENERATION=generation)

    assert "trained with bf16-mixed" in said


@pytest.mark.parametrize(("mode", "longs"), [("0", 0), ("1", 1)], ids=["eager", "lazy"])
def test_what_is_computed_as_another_dtype_is_warned_about_once(run: Callable[..., str], mode: str, longs: int) -> None:
    said = run("dtypes.py", "precision=32-true", PT_HPU_LAZY_MODE=mode)

    assert said.count(DOUBLE) == 1
    assert said.count(LONG) == longs


def test_the_monitor_logs_the_cards_memory(run: Callable[..., str], tmp_path: Path) -> None:
    run("dtypes.py", "precision=32-true")

    (file,) = tmp_path.rglob("metrics.csv")
    header, *rows = csv.reader(file.read_text().splitlines())
    cells = [(name.rpartition("/")[2], value) for row in rows for name, value in zip(header, row, strict=True)]
    logged = {name: float(value) for name, value in cells if value}
    assert logged["Limit"] == 96 * 2**30
    assert logged["MaxInUse"] >= logged["InUse"] > 0
