"""Every test has a tier, a fast one starts no process, and `python -m tests` says what it ran."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.scripts import run_python
from tests.tiers import LEFT, SAMPLE, TABLE, TIERS, draw, entry_of

from tests import __main__ as suites

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "tests", *(ROOT / "backends").glob("*/tests"))
PYTHON = [file for folder in FOLDERS for file in folder.rglob("*.py")]
FILES = [
    str(file.relative_to(ROOT)) for file in PYTHON if file.name.startswith("test_") and "vendors" not in file.parts
]
SOURCES = "".join(file.read_text() for file in PYTHON if file.name != "tiers.py")
FAST = """
import sys, pytest, tests.tiers
tests.tiers.TABLE = {"test_": "fast"}
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir=."], [tests.tiers]))
"""

STARTS = {
    "subprocess": "import subprocess; subprocess.run(['true'])",
    "fork": "import os; os.fork() or os._exit(0)",
    "spawn": "import multiprocessing as m; m.get_context('spawn').Process(target=print).start()",
    "swallowed": "try:\n        import os; os.system('true')\n    except Exception: pass",
    "chip": "import northbridge; northbridge.load('cpu_sim')",
}


def test_every_file_has_a_tier() -> None:
    assert {TABLE[entry_of(f"{file}::test")] for file in FILES} <= {*TIERS, "sampled"}


@pytest.mark.parametrize("entry", TABLE)
def test_every_entry_is_of_tests_that_exist(entry: str) -> None:
    beginning, *names = entry.partition("[")[0].split("::")
    files = [file for file in FILES if file.startswith(beginning)]

    assert files, "no test file's path begins so: mend tests/tiers.py"
    assert all(name in SOURCES for name in names), "no test is called so: mend tests/tiers.py"


def test_a_folder_without_tier_is_named() -> None:
    with pytest.raises(pytest.UsageError, match=r"^tests/new_room/test_x\.py has no tier: add its folder"):
        entry_of("tests/new_room/test_x.py::test_y")


def test_a_fast_test_starts_no_process(tmp_path: Path) -> None:
    (tmp_path / "test_starts.py").write_text(
        "".join(f"def test_{name}():\n    {start}\n" for name, start in STARTS.items())
    )

    child = run_python("-c", FAST, folder=tmp_path, environ={**os.environ, "PYTHONPATH": str(ROOT)})

    assert child.returncode == pytest.ExitCode.TESTS_FAILED, child.stdout + child.stderr
    assert f"{len(STARTS)} failed" in child.stdout
    for name in STARTS:
        said = "BuildError" if name == "chip" else f"test_{name} is a fast test by tests/tiers.py, and starts a process"
        assert said in child.stdout, name


def test_the_sample_is_spread_and_repeatable() -> None:
    tests = list(range(8 * SAMPLE))
    drawn = [draw(tests, str(seed)) for seed in range(200)]

    assert draw(tests, "1") == drawn[1] != drawn[2]
    assert all([each // 8 for each in sample] == list(range(SAMPLE)) for sample in drawn)
    assert {each for sample in drawn for each in sample} == set(tests)
    assert draw(tests[:2], "1") == tests[:2]


@pytest.mark.parametrize(("last", "chips"), [(0.0, "1 tests"), (600.0, "2 tests")], ids=["late", "in time"])
def test_the_end_tells_failures_sample_proofs_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], last: float, chips: str
) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_a.py").write_text(
        "def test_works(record_property): record_property('sampled by', 'abc')\ndef test_fails(): assert 1 == 2\n"
        f"def test_proof(record_property): record_property({LEFT!r}, '5 tests')\n"
        "def test_chip(): pass\ndef test_chip_is_proved(): pass\n"
    )
    chip = suites.Suite("chip", ("-k=chip",), may_be_left=True)
    monkeypatch.setattr(suites, "SUITES", (suites.Suite("some", ("-k=not chip",)), chip))
    monkeypatch.setattr(suites, "_PROOF", "test_a.py::test_chip_is_proved")
    monkeypatch.setattr(suites, "_LAST_PROOF_S", last)
    monkeypatch.setattr("signal.signal", lambda *_: None)

    assert suites.main("full", [f"--rootdir={tmp_path}", str(tmp_path)]) == 1

    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("make test: ")]
    left = [] if last else ["make test: chip: not proved, for 0 min 0 s had passed"]
    assert said[1:-3] == [
        "make test: some: test_a::test_fails: assert 1 == 2",
        "make test: some: pytest ended with 1",
        "make test: test_works, drawn by abc",
        "make test: some: 5 tests are left to cpu_sim's proof",
        *left,
    ]
    assert [line.rpartition(",")[0] for line in said[-3:-1]] == [
        "make test: some: 3 tests",
        f"make test: chip: {chips}",
    ]
    assert said[-1].startswith("make test: full: 0 min ")
