"""float8: the record beside the measurements of inference, and torchao where it is missing."""

from __future__ import annotations

import sys
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
        "library": "inc 3.10",
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


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"chip": "flint"}, "the chip 'flint', and this run has 'acme'"),
        ({"device": "ACME3"}, "the device ACME3, and this run has ACME2"),
        ({"library": "inc 3.9"}, "the library inc 3.9, and this run has inc 3.10"),
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
    measurement().write(tmp_path / "inc", finished=True)
    measurement().check(tmp_path / "inc", files)  # of the same run
    measurement(**theirs).write(tmp_path / "inc", finished=True)

    assert refusal(measurement(), tmp_path / "inc", files) == (
        f"northbridge_inc_0_1.json in FOLDER was measured with {said}. Fix: measure again with stage='measure'"
    )


AGAIN = "Fix: measure again with stage='measure'"
FIRST = "Fix: measure with stage='measure' first"
RECORD = "northbridge_inc_0_1.json"
BY_TWO = "FOLDER was measured by 2 ranks, and this run has 1. Fix: devices=2, or measure again with stage='measure'"
NO_RECORD = f"FOLDER has inc_hooks_maxabs.npz, but no record of its chip and ranks. {FIRST}"
Facts = dict[str, Any]
TWO: list[Facts] = [{"rank": rank, "world_size": 2} for rank in range(2)]


@pytest.mark.parametrize(
    ("written", "finished", "mine", "missing", "told"),
    [
        (TWO, True, {}, (), BY_TWO),
        ([{"world_size": 2}], True, TWO[1], (), f"FOLDER has no measurement of rank 1 of 2. {AGAIN}"),
        ([{}], False, {}, (), f"{RECORD} in FOLDER is of an unfinished run. {AGAIN}"),
        ([{}], True, {}, (1,), f"FOLDER has {RECORD}, but not inc_hooks_maxabs.npz. {AGAIN}"),
        ([], True, {}, (), NO_RECORD),
        ([], True, {}, (0, 1), f"FOLDER has no measurement. {FIRST}"),
    ],
    ids=["other ranks", "another rank", "unfinished", "a file is missing", "no record", "empty"],
)
def test_files_of_no_whole_measurement_are_refused(
    tmp_path: Path,
    files: list[Path],
    written: list[Facts],
    finished: bool,
    mine: Facts,
    missing: tuple[int, ...],
    told: str,
) -> None:
    for each in written:
        measurement(**each).write(tmp_path / "inc", finished=finished)
    for number in missing:
        files[number].unlink()

    assert refusal(measurement(**mine), tmp_path / "inc", files) == told


def test_a_record_that_is_not_one_is_refused(tmp_path: Path, files: list[Path]) -> None:
    measurement().path(tmp_path / "inc").write_text("[]")

    assert refusal(measurement(), tmp_path / "inc", files).startswith(
        f"{Path('FOLDER') / RECORD} is not a record of Northbridge: "
    )


def test_a_missing_torchao_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao", None)

    with pytest.raises(northbridge.UnsupportedError) as caught:
        northbridge.TorchAO().read_recipe(None)

    assert str(caught.value) == (
        "float8 training with engine='torchao' needs torchao, which is not installed. Fix: pip install torchao"
    )
    assert caught.value.capability == "float8"
