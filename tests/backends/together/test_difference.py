"""The vendors' backends are the difference between their chips: the same files, and few lines."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

BACKENDS = Path(__file__).parents[3] / "backends"
VENDORS = ("hpu", "npu", "sdaa", "xpu")
# hpu: 1260, and Neural Compressor; sdaa: 350, and the names of its DeepSpeed and FSDP classes
LIMITS = {"hpu": 1585, "npu": 330, "sdaa": 390, "xpu": 150}

OPTIONAL = {"acceleration.py", "compiler.py", "data.py", "float8.py", "neural_compressor.py"}
"""Files of a chip that has more than torch's own."""

SUCCESSION = {"trainer.py", "fabric.py"}
"""Files of a chip whose vendor had a package for Lightning, with its names."""


def package(name: str) -> Path:
    return BACKENDS / name / f"northbridge_{name}"


def sources(name: str) -> list[Path]:
    return sorted(package(name).rglob("*.py"))


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
def test_no_vendor_names_lightnings_other_package(name: str) -> None:
    """So a chip's proof leaves the tests of that package to cpu_sim's (one_namespace.py)."""
    other = re.compile("pytorch_lightning|lightning_fabric")

    assert [file.name for file in sources(name) if other.search(file.read_text())] == []


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
