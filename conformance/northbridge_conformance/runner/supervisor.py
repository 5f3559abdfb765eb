"""Run the suite in its own pytest, and continue if that hangs or dies."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from northbridge.processes.endings import describe_exit
from northbridge_conformance.run import FOLDER
from northbridge_conformance.runner.event_log import Began, Ended, EventLog, Line, Planned, Uncollected
from northbridge_conformance.runs.processes import Process, Start, collect_stacks, kill_group, start_afresh
from northbridge_conformance.verdict import Ending

LIMIT_S = 600.0
"""The limit for a test. One that waits for a run ends sooner: the run has its own limit."""

_POLL_S = 0.1
_LAST_WORDS = 4000


class SuiteError(Exception):
    """The suite itself cannot run; the message has the reason."""


@dataclass
class Course:
    """The progress of the suite."""

    planned: dict[str, Planned] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)

    @property
    def chosen(self) -> set[str]:
        """The ids of the tests that are to run."""
        return {test.id for test in self.planned.values() if test.chosen}

    def note(self, line: Line) -> None:
        """Add a line of the event log."""
        if isinstance(line, Planned):
            self.planned.setdefault(line.id, line)
        elif isinstance(line, Ended):
            self.ended.setdefault(line.id, line)
        elif isinstance(line, Uncollected):
            raise SuiteError(line.reason)


def watch(
    backend: str,
    levels: tuple[str, ...],
    *,
    only: tuple[str, ...] = (),
    environ: Mapping[str, str] = os.environ,
    tell: Callable[[Course, str], None] = lambda _course, _test: None,
    limit_s: float = LIMIT_S,
    begin: Start = start_afresh,
) -> Course:
    """Run the tests of ``levels`` for ``backend``, or those whose ids contain one of ``only``, and return the course.

    ``tell`` is called with the id of each test when it begins. A test that exceeds ``limit_s``, or in which the process
    dies, gets its ending here; the suite continues with the next test in a new process, which ``begin`` starts.
    After Ctrl-C or SIGTERM, the remaining tests have no ending. Raises :class:`SuiteError`.
    """
    course = Course()
    with tempfile.TemporaryDirectory(prefix="northbridge-conformance-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        runs = folder / "runs"
        runs.mkdir()
        write_tests(folder, backend, levels)
        alone = not environ.get(FOLDER)  # suites side by side leave no core idle
        shared = {FOLDER: str(runs)} if alone else {}
        attempt = 0
        while True:
            done = len(course.ended)
            (folder / "done.txt").write_text("\n".join(course.ended))
            try:
                worker = _Worker(folder, attempt, only, {**environ, **shared}, begin=begin, ahead=alone)
                worker.follow(course, tell, limit_s)
            except (KeyboardInterrupt, SystemExit):  # Ctrl-C; the command makes SystemExit of SIGTERM
                if not course.ended:
                    raise
                return course
            attempt += 1
            if worker.finished:
                return course
            if len(course.ended) == done:
                ended = describe_exit(worker.code)
                raise SuiteError(f"pytest {ended} before any test: {worker.last_words}")


def plan(folder: Path, backend: str, levels: tuple[str, ...]) -> dict[str, Planned]:
    """Collect the tests of ``levels`` without running them; raises :class:`SuiteError`."""
    course = Course()
    write_tests(folder, backend, levels)
    worker = _Worker(folder, 0, (), os.environ, collect_only=True)
    worker.follow(course, lambda _course, _test: None, LIMIT_S)
    if worker.code not in (0, 5):
        ended = describe_exit(worker.code)
        raise SuiteError(f"pytest {ended} while collecting: {worker.last_words}")
    return course.planned


def write_tests(folder: Path, backend: str, levels: tuple[str, ...]) -> Path:
    """Write the test file that a vendor would write, and return its path."""
    lines = [f"from northbridge_conformance.levels import {', '.join(levels)}"]
    for level in levels:
        lines += ["", "", f"class Test{level}({level}):", f"    backend = {backend!r}"]
    file = folder / "test_conformance.py"
    file.write_text("\n".join(lines) + "\n")
    (folder / "pytest.ini").write_text("[pytest]\n")  # ignores the configuration in parent folders
    return file


class _Worker:
    """One pytest process."""

    def __init__(
        self,
        folder: Path,
        attempt: int,
        only: tuple[str, ...],
        environ: Mapping[str, str],
        *,
        collect_only: bool = False,
        ahead: bool = False,
        begin: Start = start_afresh,
    ) -> None:
        self._folder = folder
        self._said = folder / f"said-{attempt}.txt"
        self._log = EventLog(folder / f"log-{attempt}.jsonl")
        self.code = 0
        self.finished = False
        command = [
            *(
                "-m",
                "pytest",
                "-q",
                "--no-header",
                "--tb=short",
                "--color=no",
                "--noconftest",
                "--import-mode=importlib",
            ),
            *("-c", str(folder / "pytest.ini"), "--rootdir", str(folder)),
            *("-p", "northbridge_conformance.runner.recorder", "-p", "no:cacheprovider", "-p", "no:timeout"),
            *("--northbridge-log", str(folder / f"log-{attempt}.jsonl")),
            *(("--collect-only",) if collect_only else ("--northbridge-done", str(folder / "done.txt"))),
            *(("--northbridge-ahead",) if ahead else ()),
            *(each for part in only for each in ("--northbridge-only", part)),
            str(folder / "test_conformance.py"),
        ]
        environ = {**environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        with self._said.open("wb") as said:
            self._process: Process = begin(command, environ, folder, said)

    @property
    def last_words(self) -> str:
        return self._said.read_text(errors="replace")[-_LAST_WORDS:]

    def follow(self, course: Course, tell: Callable[[Course, str], None], limit_s: float) -> None:
        """Add its events to ``course`` until the process ends; end it if a test exceeds the limit."""
        test, began = "", time.monotonic()
        try:
            while True:
                running = self._is_running()
                for line in self._log.read():
                    course.note(line)
                    if isinstance(line, Began):
                        test, began = line.id, time.monotonic()
                        tell(course, test)
                    elif isinstance(line, Ended):
                        test, began = "", time.monotonic()
                seconds = time.monotonic() - began
                if not running:
                    self.code = self._process.wait()
                    break
                if seconds > (limit_s if test else max(limit_s, LIMIT_S)):
                    stacks = collect_stacks(self._process.pid, self._folder)
                    self._end()
                    if not test:
                        raise SuiteError(f"pytest has done nothing for {seconds:.0f} s\n{stacks}\n{self.last_words}")
                    evidence = f"it did not end within {limit_s:g} s\n{stacks}"
                    course.note(Ended(id=test, ending=Ending.HUNG, seconds=seconds, evidence=evidence))
                    return
                time.sleep(_POLL_S)
        finally:
            self._end()
        if test:  # the process died in this test
            evidence = f"the process {describe_exit(self.code)} in this test; its output:\n{self.last_words}"
            course.note(Ended(id=test, ending=Ending.FAILED, seconds=seconds, evidence=evidence))
        else:
            self.finished = course.chosen == set(course.ended) and self.code in (0, 1, 5)

    def _is_running(self) -> bool:
        try:
            self._process.wait(0.0)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _end(self) -> None:
        if self._is_running():
            kill_group(self._process.pid)  # with the runs that its tests have started
            self._process.wait()
