"""Run a scenario, once for all tests that need it, and read the findings of its ranks.

Lightning's results on the CPU do not depend on the chip that is compared with them, and a chip repeats its results
under the same variables. If :data:`FOLDER` names a folder, each such run happens once, in the pytest that needs it
first: concurrent suites, and a suite that is started again, wait for it.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from northbridge.errors import UnsupportedError
from northbridge_conformance.runs.processes import (
    RUN,
    Process,
    await_ends,
    collect_stacks,
    environ_of_runs,
    inherited,
    kill_group,
    kill_left,
    reserve_port,
    start,
)
from northbridge_conformance.runs.scenario import (
    BEGINS,
    FAILED,
    LAST,
    REFUSED,
    Findings,
    HungError,
    RunError,
    Scenario,
    name_of,
    read,
    write,
)

WORK = ["-m", "northbridge_conformance.runs.work"]
"""The command of a rank, without the scenario and the folder."""

FOLDER = "PYTEST_NORTHBRIDGE_RUNS"
"""The variable that names the folder. The process that sets it creates and finally deletes the folder.

Its prefix is pytest's, because the processes that tests start report Northbridge's settings as the user's.
"""

LIMIT_S = 240.0
"""The limit after which a run counts as hung."""

LAST_RESTART_S = 1.25 * LIMIT_S
"""A run older than this does not continue after a failed step, because a test of the suite has ten minutes."""

_SAID = "said-*.txt"
_BEGIN = re.compile(BEGINS.format(r"(\d+)", r"(\S+)\n"))


@dataclass(frozen=True)
class RunResult:
    """Findings and output of a run."""

    folder: Path
    """The run's folder, with its checkpoints; kept until this process ends, or longer if suites share it."""

    findings: Findings
    said: str
    """The output of the processes."""

    world_size: int = field(default=1, kw_only=True)

    def ranks(self, topic: str) -> list[dict[str, Any]]:
        """Return every rank's findings about ``topic``; one of its words is the function of its step.

        Raises :class:`UnsupportedError` if the step was refused, and :class:`HungError` if it hung. If a rank wrote no
        findings, or the step failed after them, raises :class:`AssertionError` with the processes' output in that step.
        """
        words = topic.split()
        found = self.findings.get(topic, [])
        failed = {word: fact for word in words for fact in self.findings.get(FAILED + word, ())}
        # A step reports under its own name at its end, before the device may raise a late error.
        if found and not (failed and (topic in failed or len(found) < self.world_size)):
            return found
        for refused in (fact for word in words for fact in self.findings.get(REFUSED + word, ())):
            raise UnsupportedError(refused["message"], capability=refused["capability"])
        for fact in failed.values():
            raise (HungError if fact["hung"] else AssertionError)(fact["reason"])
        raise AssertionError(f"no findings about {topic!r}\n{_said_in(words, self.said)[-4000:]}")

    def each(self, topic: str, fact: str) -> list[Any]:
        """Return one ``fact`` of every rank's findings about ``topic``; raises as :meth:`ranks` does."""
        return [rank[fact] for rank in self.ranks(topic)]

    def only(self, topic: str) -> dict[str, Any]:
        """Return the findings of a single process about ``topic``; raises as :meth:`ranks` does."""
        (fact,) = self.ranks(topic)
        return fact


_results: dict[tuple[Scenario, tuple[tuple[str, str], ...]], Future[RunResult]] = {}


def run(scenario: Scenario, environ: Mapping[str, str] | None = None) -> RunResult:
    """Run ``scenario``, only once for this process, and return its result; ``environ`` extends the environment.

    If another thread has begun the run, wait for its end. Raises :class:`RunError` with the end of the output if a
    process failed, and :class:`HungError` with the stacks if the processes exceeded the limit.
    """
    key = (scenario, tuple(sorted((environ or {}).items())))
    mine: Future[RunResult] = Future()
    future = _results.setdefault(key, mine)
    if future is mine:
        try:
            mine.set_result(_run(scenario, dict(environ or {})))
        except RunError as error:
            mine.set_exception(error)
        except BaseException as error:
            del _results[key]  # the next test that needs the run tries again
            mine.set_exception(error)
            raise
    if (failure := future.exception()) is not None:
        raise failure.with_traceback(None)  # else it shows the frames of each test for which it was raised before
    return future.result()


def _run(scenario: Scenario, environ: dict[str, str]) -> RunResult:
    shared = folder_of_runs(inherited.get())
    if shared is not None:
        name = f"{scenario.to_json()} {sorted(_read_by_a_run(scenario).items())} {sorted(environ.items())}"
        folder = run_once(shared, name, lambda: _run_in(new_folder(shared), scenario, environ))
    else:
        folder = new_folder()
        _run_in(folder, scenario, environ)
    return RunResult(folder, read(folder), read_said(folder, f"*{_SAID}"), world_size=scenario.ranks)


def folder_of_runs(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder that suites share, or None if they do not share one."""
    return Path(environ[FOLDER]) if environ.get(FOLDER) else None


def run_once(runs: Path, name: str, run: Callable[[], Path]) -> Path:
    """Return the folder of the run ``name``: the result of ``run``, called here or by an earlier process.

    A run that raises leaves no result: the next process that needs it tries again.
    """
    stem = hashlib.sha256(name.encode()).hexdigest()[:16]
    done = runs / f"{stem}.folder"
    with FileLock(runs / f"{stem}.lock"):
        if not done.exists():
            folder = run()
            done.write_text(str(folder))
    return Path(done.read_text())


def _read_by_a_run(scenario: Scenario) -> dict[str, str]:
    """Return the inherited variables that may affect a run of ``scenario``: only a few for a run on the CPU."""
    name = scenario.accelerator
    beginnings = ("TORCH",) if name == "cpu" else ("TORCH", "NORTHBRIDGE_")
    return {
        variable: value
        for variable, value in inherited.get().items()
        if variable.startswith(beginnings) or (name != "cpu" and name in variable.lower())
    }


def new_folder(parent: Path | None = None) -> Path:
    """Create an empty folder for a run; without ``parent``, it is deleted when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="northbridge-conformance-", dir=parent))
    if parent is None:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _run_in(folder: Path, scenario: Scenario, environ: dict[str, str]) -> Path:
    """Run all steps of ``scenario``; those that follow a failed one run in new processes.

    Raises :class:`RunError` if no step is to blame, or there is only one.
    """
    is_single, began = len(scenario.steps) == 1, time.monotonic()
    while True:
        try:
            (codes,) = play([(scenario, folder)], environ)
            if not any(codes):
                return folder
            error = RunError(f"{scenario} failed with {codes}:\n{read_said(folder)[-12000:]}")
        except HungError as hung:
            error, codes = hung, []
        failed = _find_failed_step(scenario.steps, read_said(folder))
        if is_single or failed is None:
            raise error
        is_hung = isinstance(error, HungError)
        said = _said_since(failed, folder)
        reason = f"{error}" if is_hung else f"the step {failed!r} failed with {codes}; it said:\n{said}"
        write(folder, FAILED + name_of(failed), 0, {"reason": reason, "hung": is_hung})
        following = scenario.steps[scenario.steps.index(failed) + 1 :]
        if time.monotonic() - began > LAST_RESTART_S:
            for step in following:
                reason = f"the step {step!r} did not begin: the run was too old after the step {failed!r}"
                write(folder, FAILED + name_of(step), 0, {"reason": reason, "hung": is_hung})
            return folder
        if not following:
            return folder
        scenario = replace(scenario, steps=following)
        for path in folder.glob(_SAID):
            path.rename(path.with_name(f"until-{name_of(failed)}-{path.name}"))


def _find_failed_step(steps: tuple[str, ...], said: str) -> str | None:
    """Return the step that some process did not finish; None if they finished all, or began none."""
    at = {begin[1]: begin[2] for begin in _BEGIN.finditer(said)}
    return min((step for step in at.values() if step != LAST), key=steps.index, default=None)


def _said_since(step: str, folder: Path) -> str:
    """Return the output of the processes since they began ``step``."""
    begin = re.compile(BEGINS.format(r"\d+", re.escape(step)) + "\n")
    said = (begin.split(path.read_text(errors="replace"), maxsplit=1) for path in sorted(folder.glob(_SAID)))
    return "\n".join(text for _, *since in said for text in since)[-12000:]


def _said_in(names: Sequence[str], said: str) -> str:
    """Return the parts of ``said``, a process's output, that belong to the steps of these functions."""
    parts = _BEGIN.split(said)
    return "".join(text for step, text in zip(parts[2::3], parts[3::3], strict=True) if name_of(step) in names)


def play(
    plays: Sequence[tuple[Scenario, Path]], environ: Mapping[str, str], at_end: Callable[[], None] = lambda: None
) -> list[list[int]]:
    """Start all scenarios at once, each in its folder, and return the exit codes of each scenario's processes.

    ``at_end`` is called when these have ended, before other processes that they started are killed. Raises
    :class:`HungError` with their output and stacks if one exceeds the limit. No process is left when this returns.
    """
    until = time.monotonic() + LIMIT_S
    processes: list[list[Process]] = [[] for _ in plays]
    try:
        for (scenario, folder), begun in zip(plays, processes, strict=True):
            _begin(scenario, folder, environ, begun)
        codes = [[process.wait(max(0.0, until - time.monotonic())) for process in begun] for begun in processes]
        at_end()
        return codes
    except subprocess.TimeoutExpired:
        said = "".join(_BEGIN.split(read_said(folder))[-1][-4000:] for _, folder in plays)
        stacks = "\n".join(
            collect_stacks(process.pid, folder)
            for (_, folder), begun in zip(plays, processes, strict=True)
            for process in begun
        )
        asked = " beside ".join(str(scenario) for scenario, _ in plays)
        raise HungError(f"{asked} did not end within {LIMIT_S:g} s; output:\n{said}\n{stacks}") from None
    finally:
        for process in itertools.chain(*processes):
            kill_group(process.pid)  # ranks that a launcher started outlive it if it is killed
            process.wait()
        for _, folder in plays:
            kill_left(folder)


def _begin(scenario: Scenario, folder: Path, environ: Mapping[str, str], begun: list[Process]) -> None:
    environ_before = environ_of_runs()
    if scenario.accelerator == "cpu":
        environ_before.pop("NORTHBRIDGE_SIMULATE", None)  # Lightning's own run must not involve a chip
    for number, (command, variables) in enumerate(_commands(scenario, folder)):
        with (folder / f"said-{number}.txt").open("wb") as said:
            begun.append(start(command, {**environ_before, **environ, **variables, RUN: str(folder)}, folder, said))


def read_said(folder: Path, files: str = _SAID) -> str:
    """Return the output in ``files`` of ``folder``: that of the run's latest processes if none are given."""
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob(files)))


def _commands(scenario: Scenario, folder: Path) -> list[tuple[list[str], dict[str, str]]]:
    work = [*WORK, scenario.to_json(), str(folder)]
    if scenario.launch == "script":
        return [(work, {})]
    if scenario.launch in ("torchrun", "restarts"):
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={scenario.devices}"]
        launcher.append(f"--max-restarts={int(scenario.launch == 'restarts')}")
        return [([*launcher, *work], {})]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port())}
    if scenario.launch == "two nodes":
        meeting["MASTER_ADDR"] = "localhost"  # not the address by which a rank finds rank 0 on its own machine
        return [(work, {**meeting, "NODE_RANK": str(node)}) for node in range(2)]
    assert isinstance(scenario.devices, int)
    world = {**meeting, "WORLD_SIZE": str(scenario.devices)}
    return [(work, {**world, "RANK": str(rank)}) for rank in range(scenario.devices)]


@dataclass(frozen=True)
class End(RunResult):
    """The result of one run, with its exit codes and its end time."""

    codes: tuple[int, ...]
    """The exit codes of the processes that the suite started; minus the signal if one ended a process."""

    at: float
    """The time at which the last process of all runs had ended, in seconds since 1970."""

    left: list[str]
    """The command lines of processes that the run left behind."""


_ends: dict[tuple[tuple[Scenario, ...], tuple[tuple[str, str], ...]], tuple[End, ...] | HungError] = {}


def run_to_the_end(*scenarios: Scenario, environ: Mapping[str, str]) -> tuple[End, ...]:
    """Run ``scenarios`` at the same time, only once for this process, and return how each ended.

    Raises :class:`HungError` if one of them did not end within the limit, whichever process was killed in it.
    """
    key = (scenarios, tuple(sorted(environ.items())))
    if key not in _ends:
        try:
            _ends[key] = _play_all(scenarios, environ)
        except HungError as error:
            _ends[key] = error
    ends = _ends[key]
    if isinstance(ends, HungError):
        raise ends.with_traceback(None)  # as in run()
    return ends


def _play_all(scenarios: tuple[Scenario, ...], environ: Mapping[str, str]) -> tuple[End, ...]:
    plays = [(scenario, new_folder()) for scenario in scenarios]
    at: list[float] = []
    left: list[list[str]] = []

    def at_end() -> None:
        at.append(time.time())
        left.extend(await_ends(folder) for _, folder in plays)

    codes = play(plays, environ, at_end)
    return tuple(
        End(folder, read(folder), read_said(folder), tuple(each), at[0], lasting)
        for (_, folder), each, lasting in zip(plays, codes, left, strict=True)
    )
