"""The vendors' backends are the difference between their chips: no passage of code stands in both."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from tests.backends.together.passages import common_passages, statements

BACKENDS = Path(__file__).parents[3] / "backends"
VENDORS = ("hpu", "npu", "sdaa", "xpu")
LIMITS = {
    "hpu": 1585,
    "npu": 330,
    "sdaa": 390,
    "xpu": 150,
}  # hpu: 1260, and Neural Compressor; sdaa: 350, and the names of its DeepSpeed and FSDP classes
OPTIONAL = {"acceleration.py", "compiler.py", "data.py", "float8.py", "neural_compressor.py"}
"""Files of a chip that has more than torch's own."""

SUCCESSION = {"trainer.py", "fabric.py"}
"""Files of a chip whose vendor had a package for Lightning, with its names."""


def package(name: str) -> Path:
    return BACKENDS / name / f"northbridge_{name}"


def sources(name: str) -> list[Path]:
    return sorted(package(name).rglob("*.py"))


@pytest.mark.parametrize(("one", "other"), list(combinations(VENDORS, 2)))
def test_no_six_lines_stand_in_both_renamed_or_not(one: str, other: str) -> None:
    twice = [
        places
        for mine in sources(one)
        for theirs in sources(other)
        for places in common_passages(statements(mine), statements(theirs), lines=6)
    ]

    assert twice == []


@pytest.mark.parametrize(("one", "other"), list(combinations(VENDORS, 2)))
def test_both_have_the_same_files(one: str, other: str) -> None:
    files = [{each.name for each in package(name).iterdir() if each.name != "__pycache__"} for name in (one, other)]
    succeeds = all((package(name) / "trainer.py").exists() for name in (one, other))
    own = OPTIONAL if succeeds else OPTIONAL | SUCCESSION

    assert files[0] - own == files[1] - own


@pytest.mark.parametrize("name", VENDORS)
def test_simulations_have_the_same_files(name: str) -> None:
    files = {each.name for each in (package(name) / "simulated").iterdir()}

    assert {"__init__.py", "device.toml", "devices.py", "machine.py", "vendor_import.py"} <= files


@pytest.mark.parametrize("name", VENDORS)
def test_real_chips_need_no_simulation(name: str) -> None:
    files = [file for file in sources(name) if "simulated" not in file.relative_to(package(name)).parts]

    assert [
        file
        for file in files
        if re.search(r"import.*(\bsimulated\b|_cpu_sim\b)|_(cpu_sim|simulated) import", file.read_text())
    ] == []


@pytest.mark.parametrize("name", VENDORS)
def test_a_backend_has_no_more_lines_than_it_may(name: str) -> None:
    files = [file for file in sources(name) if "simulated" not in file.relative_to(package(name)).parts]

    assert sum(len(file.read_text().splitlines()) for file in files) <= LIMITS[name]


ONE = """
import os

def read(path: str) -> dict[str, int]:
    "Return what a file says."
    found = {}
    for line in open(path):
        name, _, value = line.partition("=")
        if not value:
            raise ValueError(f"{line} says nothing")
        found[name] = int(value)
    return found
"""
RENAMED = ONE.replace("found", "kept").replace("line", "row").replace('"="', '":"').replace("read", "parse")
OTHER = ONE.replace("partition", "rpartition")


@pytest.mark.parametrize(("text", "twice"), [(ONE, 1), (RENAMED, 1), (OTHER, 0)], ids=["same", "renamed", "other"])
def test_a_passage_is_found_under_other_names(text: str, twice: int, tmp_path: Path) -> None:
    files = [tmp_path / "one.py", tmp_path / "other.py"]
    for file, code in zip(files, (ONE, text), strict=True):
        file.write_text(code)

    found = common_passages(*map(statements, files), lines=6)

    assert len(found) == twice
    assert found == [(f"{files[0]}:4", f"{files[1]}:4")][:twice]
