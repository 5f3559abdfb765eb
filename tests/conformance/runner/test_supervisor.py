"""The suite goes on where a test hangs, and where the process dies; the endings of tests, and the log of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.forks.suite import begin_pytest
from tests.scripts import is_alive

from northbridge.errors import CheckpointError
from northbridge_conformance.run import FOLDER
from northbridge_conformance.runner import supervisor
from northbridge_conformance.runner.event_log import Began, Ended, EventLog, Uncollected
from northbridge_conformance.runner.recorder import classify
from northbridge_conformance.runner.supervisor import Course, SuiteError, plan, watch
from northbridge_conformance.runs.scenario import HungError, RunError
from northbridge_conformance.verdict import Ending, VoidError

TESTS = """
import os
import signal
import time

import pytest

from northbridge import Device
from northbridge_conformance.suite import Suite, shows
from northbridge.errors import UnsupportedError


class TestSample(Suite):
    '''What can happen.'''

    level = "C1"
    advice = "Look at the sample."

    def test_it_works(self):
        pass

    @shows("float32", "{dtype}")
    @pytest.mark.parametrize("dtype", ["float16", "uint8"])
    def test_it_knows(self, dtype):
        assert dtype == "float16", f"{dtype} was not expected"

    def test_it_hangs(self):
        time.sleep(600)

    def test_it_dies(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_it_is_refused(self):
        raise UnsupportedError("acme was asked for a thing it has not", capability="graphs")

    def test_it_is_refused_by_torch(self):
        raise RuntimeError("Could not run 'aten::bmm' with arguments from the 'acme' backend")

    def test_it_is_forbidden(self):
        pytest.skip("one device is here, and not two")

    @pytest.fixture
    def broken(self):
        raise OSError("the fixture is broken")

    def test_its_fixture_fails(self, broken):
        pass

    def test_it_works_at_the_end(self):
        pass


class Chip(Device):
    type = "acme"
    errors = []

    def select(self, index):
        pass

    def synchronize(self):
        if self.errors:
            raise self.errors.pop()


class TestLate(Suite):
    '''Errors that a device keeps; wrong_error_comes_late fails its own test alone.'''

    level = "C1"

    @pytest.fixture
    def chip(self):
        return Chip()

    @pytest.fixture
    def index(self):
        return 0

    @pytest.fixture
    def device(self, chip, index):
        return "acme:0"

    def test_own_error_comes_first(self, chip, device):
        chip.errors.append(RuntimeError("late"))
        raise ValueError("early")

    def test_device_is_lost(self, chip, device):
        chip.errors.extend([RuntimeError("the chip is lost")] * 9)

    def test_next_has_a_new_process(self, device):
        pass
"""


@pytest.fixture
def sample(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the suite be the sample, or the text that the test is given."""

    def write(folder: Path, *_: object) -> Path:
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_conformance.py").write_text(getattr(request, "param", TESTS))
        return folder / "test_conformance.py"

    monkeypatch.setattr(supervisor, "write_tests", write)


def test_every_test_has_its_ending(sample: None) -> None:
    """In processes that start as a vendor's do; the other tests, and every wrong backend, fork them."""
    course = watch("acme", ("C1",), limit_s=20.0)

    assert {name.removeprefix("C1/Sample/test_"): ended.ending for name, ended in course.ended.items()} == {
        "it_works": Ending.WORKED,
        "it_knows[float16]": Ending.WORKED,
        "it_knows[uint8]": Ending.FAILED,
        "it_hangs": Ending.HUNG,
        "it_dies": Ending.FAILED,
        "it_is_refused": Ending.REFUSED,
        "it_is_refused_by_torch": Ending.REFUSED,
        "it_is_forbidden": Ending.FORBIDDEN,
        "its_fixture_fails": Ending.FAILED,
        "it_works_at_the_end": Ending.WORKED,
        "C1/Late/test_own_error_comes_first": Ending.FAILED,
        "C1/Late/test_device_is_lost": Ending.FAILED,
        "C1/Late/test_next_has_a_new_process": Ending.WORKED,
    }

    said = {name.removeprefix("C1/Sample/test_"): ended.evidence for name, ended in course.ended.items()}
    assert "AssertionError: uint8 was not expected" in said["it_knows[uint8]"]
    assert "it did not end within 20 s" in said["it_hangs"]
    assert "in test_it_hangs" in said["it_hangs"]  # the stack
    assert "the process was killed by SIGSEGV in this test" in said["it_dies"]
    assert "a thing it has not" in said["it_is_refused"]
    assert said["it_is_forbidden"] == "one device is here, and not two"
    assert "the fixture is broken" in said["its_fixture_fails"]
    assert "ValueError: early" in said["C1/Late/test_own_error_comes_first"]
    assert "RuntimeError: the chip is lost" in said["C1/Late/test_device_is_lost"]

    about = course.planned["C1/Sample/test_it_knows[float16]"]
    assert (about.level, about.topic, about.advice) == ("C1", "What can happen.", "Look at the sample.")
    assert about.title == "It knows: float16"
    assert about.claims == ("float32", "float16")
    assert course.planned["C1/Sample/test_it_knows[uint8]"].claims == ("float32",)


def test_a_part_of_it_runs_and_all_of_it_is_planned(sample: None, tmp_path: Path) -> None:
    """A plan runs nothing."""
    course = watch("acme", ("C1",), only=("it_works_at", "it_is_forbidden"), begin=begin_pytest)

    assert len(course.planned) == len(plan(tmp_path, "acme", ("C1",))) == 13
    assert [name.rpartition("/")[2] for name in course.ended] == ["test_it_is_forbidden", "test_it_works_at_the_end"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_interrupted_run_keeps_what_has_ended(sample: None, interruption: type[BaseException]) -> None:
    """Where nothing has, it is raised."""

    def interrupt(_: Course, test: str) -> None:
        if test.endswith("/test_it_hangs"):
            raise interruption

    course = watch("acme", ("C1",), tell=interrupt, begin=begin_pytest)

    assert len(course.planned) == 13
    ended = ["test_it_works", "test_it_knows[float16]", "test_it_knows[uint8]"]
    assert [name.rpartition("/")[2] for name in course.ended] == ended
    with pytest.raises(interruption):
        watch("acme", ("C1",), only=("it_hangs",), tell=interrupt, begin=begin_pytest)


STARTS_A_RUN = """
import os
import subprocess
from pathlib import Path

from northbridge_conformance.suite import Suite


class TestSample(Suite):
    level = "C1"

    def test_it_starts_a_run(self):
        run = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(os.environ["STARTED"]).write_text(str(run.pid))
        run.wait()
"""


@pytest.mark.parametrize("sample", [STARTS_A_RUN], indirect=True)
def test_a_run_ends_with_the_test_that_started_it(sample: None, tmp_path: Path) -> None:
    started = tmp_path / "started"

    environ = {**os.environ, "STARTED": str(started)}
    watch("acme", ("C1",), environ=environ, limit_s=5.0, begin=begin_pytest)

    assert not is_alive(int(started.read_text()))


_TELLS = """
from northbridge_conformance.suite import Suite


class TestSample(Suite):
    level = "C1"

    def test_runs_begin_ahead(self, pytestconfig):
        assert pytestconfig.getoption("--northbridge-ahead")
"""


@pytest.mark.parametrize("sample", [_TELLS], indirect=True)
@pytest.mark.parametrize(("shared", "ending"), [("", Ending.WORKED), ("runs", Ending.FAILED)])
def test_runs_begin_ahead_but_in_suites_side_by_side(sample: None, tmp_path: Path, shared: str, ending: Ending) -> None:
    course = watch("acme", ("C1",), environ={**os.environ, FOLDER: shared and str(tmp_path)}, begin=begin_pytest)

    assert [ended.ending for ended in course.ended.values()] == [ending]


@pytest.mark.parametrize("sample", ["import a_module_that_is_not_there\n"], indirect=True)
def test_collection_failure_is_an_error_with_the_reason(sample: None) -> None:
    with pytest.raises(SuiteError, match="a_module_that_is_not_there"):
        watch("acme", ("C1",), begin=begin_pytest)


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (NotImplementedError("aten::bmm"), Ending.REFUSED),
        (RuntimeError("'bmm' not implemented for 'Half'"), Ending.REFUSED),
        (RuntimeError("driver error 7"), Ending.FAILED),
        (CheckpointError("the disk is full"), Ending.FAILED),
        (RunError("it failed; it had said: bmm is not supported"), Ending.FAILED),
        (VoidError("it varies"), Ending.VOID),
        (HungError("it did not end"), Ending.HUNG),
    ],
)
def test_an_ending_is_what_was_raised(error: BaseException, ending: Ending) -> None:
    assert classify(error) is ending


def test_each_line_is_read_once_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    writer, reader = EventLog(file), EventLog(file)
    ended = Ended(id="C1/Device/test_ü", ending=Ending.FAILED, seconds=0.5, evidence="two\nlines")

    assert reader.read() == []
    writer.write(Began(id="C1/Device/test_ü"))
    writer.write(ended)
    assert reader.read() == [Began(id="C1/Device/test_ü"), ended]
    assert reader.read() == []

    with file.open("a") as half:
        half.write('{"event":"refused",')
    assert reader.read() == []
    with file.open("a") as half:
        half.write('"reason":"no"}\n')
    assert reader.read() == [Uncollected(reason="no")]
