"""The record beside the measurements of float8 inference: whose they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import northbridge
from northbridge.float8.measurement import Measurement


def measurement(**differences: Any) -> Measurement:
    known = {
        "chip": "acme",
        "device": "ACME2",
        "rank": 0,
        "world_size": 1,
        "library": "neural-compressor-pt 3.10",
        "layers": {"net.0": "Linear (4, 4) up to 0.5"},
    }
    return Measurement(**{**known, **differences})


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """The library's files."""
    files = [tmp_path / f"inc_hooks_maxabs{end}" for end in (".json", ".npz")]
    for each in files:
        each.write_text("{}")
    return files


def refusal(mine: Measurement, prefix: Path, files: list[Path]) -> str:
    with pytest.raises(northbridge.ArgumentValueError) as caught:
        mine.check(prefix, files)
    return str(caught.value).replace(str(prefix.parent), "FOLDER")


def test_a_finished_measurement_of_the_same_run_is_accepted(tmp_path: Path, files: list[Path]) -> None:
    measurement().write(tmp_path / "inc", finished=True)

    measurement().check(tmp_path / "inc", files)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"chip": "flint"}, "the chip 'flint', and this run has 'acme'"),
        ({"device": "ACME3"}, "the device ACME3, and this run has ACME2"),
        (
            {"library": "neural-compressor-pt 3.9"},
            "the library neural-compressor-pt 3.9, and this run has neural-compressor-pt 3.10",
        ),
        (
            {"layers": {"net.0": "Linear (4, 5) up to 0.5"}},
            "the layer 'net.0': Linear (4, 5) up to 0.5, and this run has Linear (4, 4) up to 0.5",
        ),
        ({"layers": {}}, "the layer 'net.0': none, and this run has Linear (4, 4) up to 0.5"),
    ],
)
def test_a_measurement_of_another_run_is_refused(
    tmp_path: Path, files: list[Path], theirs: dict[str, Any], said: str
) -> None:
    measurement(**theirs).write(tmp_path / "inc", finished=True)

    assert refusal(measurement(), tmp_path / "inc", files) == (
        f"northbridge_inc_0_1.json in FOLDER was measured with {said}. Fix: measure again with stage='measure'"
    )


def test_one_of_another_number_of_ranks_is_refused(tmp_path: Path, files: list[Path]) -> None:
    for rank in range(2):
        measurement(rank=rank, world_size=2).write(tmp_path / "inc", finished=True)

    assert refusal(measurement(), tmp_path / "inc", files) == (
        "FOLDER was measured by 2 ranks, and this run has 1. Fix: devices=2, or measure again with stage='measure'"
    )


def test_a_rank_that_has_not_measured_is_refused(tmp_path: Path, files: list[Path]) -> None:
    measurement(world_size=2).write(tmp_path / "inc", finished=True)

    assert refusal(measurement(rank=1, world_size=2), tmp_path / "inc", files) == (
        "FOLDER has no measurement of rank 1 of 2. Fix: measure again with stage='measure'"
    )


def test_an_unfinished_one_is_refused(tmp_path: Path, files: list[Path]) -> None:
    measurement().write(tmp_path / "inc")

    assert refusal(measurement(), tmp_path / "inc", files) == (
        "northbridge_inc_0_1.json in FOLDER is of an unfinished run. Fix: measure again with stage='measure'"
    )


def test_missing_files_are_named(tmp_path: Path, files: list[Path]) -> None:
    measurement().write(tmp_path / "inc", finished=True)
    files[1].unlink()

    assert refusal(measurement(), tmp_path / "inc", files) == (
        "FOLDER has northbridge_inc_0_1.json, but not inc_hooks_maxabs.npz. Fix: measure again with stage='measure'"
    )


def test_files_without_a_record_are_refused(tmp_path: Path, files: list[Path]) -> None:
    assert refusal(measurement(), tmp_path / "inc", files) == (
        "FOLDER has inc_hooks_maxabs.npz, but no record of its chip and ranks. Fix: measure with stage='measure' first"
    )


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(measurement(), tmp_path / "inc", []) == (
        "FOLDER has no measurement. Fix: measure with stage='measure' first"
    )


def test_a_record_that_is_not_one_is_refused(tmp_path: Path, files: list[Path]) -> None:
    measurement().path(tmp_path / "inc").write_text("[]")

    assert refusal(measurement(), tmp_path / "inc", files).startswith(
        f"{Path('FOLDER') / 'northbridge_inc_0_1.json'} is not a record of Northbridge: "
    )
