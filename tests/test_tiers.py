"""Every test has a tier, a fast one starts no process, and `python -m tests` says what it ran."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.scripts import run_python
from tests.tiers import IN_TURN, PROOFS, SAMPLE, TABLE, TIERS, draw, entry_of

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

FORBIDDEN = "test_starts is a fast test by tests/tiers.py, and starts a process"


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


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("import subprocess; subprocess.run(['true'])", FORBIDDEN),
        ("import os; os.fork() or os._exit(0)", FORBIDDEN),
        ("import multiprocessing as m; m.get_context('spawn').Process(target=print).start()", FORBIDDEN),
        ("try:\n        import os; os.system('true')\n    except Exception: pass", FORBIDDEN),
        ("import northbridge; northbridge.load('cpu_sim')", "BuildError"),
    ],
    ids=["subprocess", "fork", "spawn", "swallowed", "chip"],
)
def test_a_fast_test_starts_no_process(tmp_path: Path, start: str, words: str) -> None:
    (tmp_path / "test_starts.py").write_text(f"def test_starts():\n    {start}\n")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = run_python("-c", FAST, folder=tmp_path, environ=environ)

    assert child.returncode == pytest.ExitCode.TESTS_FAILED, child.stdout + child.stderr
    assert words in child.stdout


def test_the_sample_is_spread_and_repeatable() -> None:
    tests = list(range(8 * SAMPLE))
    drawn = [draw(tests, str(seed)) for seed in range(200)]

    assert draw(tests, "1") == drawn[1] != drawn[2]
    assert all([each // 8 for each in sample] == list(range(SAMPLE)) for sample in drawn)
    assert {each for sample in drawn for each in sample} == set(tests)
    assert draw(tests[:2], "1") == tests[:2]


def test_one_chip_is_proved_where_proofs_take_turns(tmp_path: Path) -> None:
    file = tmp_path / PROOFS[0]
    file.parent.mkdir(parents=True)
    file.write_text("def test_proof(): pass")
    (tmp_path / "tests" / "test_tiers.py").write_text("def test_other(): pass")
    command = ["-m", "pytest", "-p", "tests.tiers", "--rootdir=.", "--in-turn", "--sample-seed=1", "-v", "."]
    said = {}
    for chip in IN_TURN:
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "NORTHBRIDGE_SIMULATE": chip}
        said[chip] = run_python(*command, folder=tmp_path, environ=environ).stdout

    assert all("test_other PASSED" in each for each in said.values()), said
    proved = [chip for chip, each in said.items() if "test_proof PASSED" in each]
    assert proved == draw(IN_TURN, "1", 1)
    assert all("1 deselected" in said[chip] for chip in IN_TURN if chip not in proved), said


def test_half_of_what_is_sampled_waits_for_its_turn(tmp_path: Path) -> None:
    (sampled,) = (entry for entry in TABLE if TABLE[entry] == "sampled")
    beginning, _, name = sampled.partition("::")
    file = tmp_path / beginning
    file.parent.mkdir(parents=True)
    file.write_text(f"import pytest\n@pytest.mark.parametrize('i', range(40))\ndef {name}(i): pass\n")
    command = ["-m", "pytest", "-p", "tests.tiers", "--rootdir=.", "--in-turn", "--sample-seed=1", "."]

    said = run_python(*command, folder=tmp_path, environ={**os.environ, "PYTHONPATH": str(ROOT)}).stdout

    assert "20 passed, 20 deselected" in said


def test_each_chip_has_its_turn() -> None:
    assert {chip for seed in range(20) for chip in draw(IN_TURN, str(seed), 1)} == {*IN_TURN}


def test_the_end_tells_failures_sample_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_a.py").write_text(
        "def test_works(record_property): record_property('sampled by', 'abc')\ndef test_fails(): assert 1 == 2\n"
    )
    monkeypatch.setattr(suites, "SUITES", (suites.Suite("some", (str(tmp_path),)), suites.Suite("none", ("-k=no",))))
    monkeypatch.setattr("signal.signal", lambda *_: None)

    assert suites.main("full", [f"--rootdir={tmp_path}", str(tmp_path)]) == 1

    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("make test: ")]
    assert said[1:4] == [
        "make test: some: test_a::test_fails: assert 1 == 2",
        "make test: some: pytest ended with 1",
        "make test: test_works, drawn by abc",
    ]
    assert [line.rpartition(",")[0] for line in said[4:6]] == ["make test: some: 2 tests", "make test: none: 0 tests"]
    assert said[6].startswith("make test: full: 0 min ")
