"""Runs of a scenario, those that suites side by side share, and the endings of runs with killed ranks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from northbridge.errors import UnsupportedError
from northbridge_conformance import run as room
from northbridge_conformance.run import (
    FOLDER,
    RunResult,
    run_once,
    run_to_the_end,
)
from northbridge_conformance.runs.scenario import (
    BEGINS,
    LAST,
    Findings,
    HungError,
    Launch,
    RunError,
    Scenario,
    reference,
)
from northbridge_conformance.suite import TRAINERS
from northbridge_conformance.tests.endurance.launches import train_side_by_side

SCENARIO = Scenario("cpu", "lightning.pytorch", ("ours:train",))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The environments of the runs, which fail where ``FAIL`` is set."""
    environments: list[dict[str, str]] = []

    def run(scenario: Scenario, environ: dict[str, str]) -> RunResult:
        environments.append(environ)
        if "FAIL" in environ:
            raise RunError("rank 1 ended")
        return RunResult(Path(), {}, "")

    monkeypatch.setattr(room, "_run", run)
    monkeypatch.setattr(room, "_results", {})
    return environments


def test_tests_that_ask_for_one_scenario_share_its_run(ran: list[dict[str, str]]) -> None:
    """In another environment it is another run."""
    assert room.run(SCENARIO) is room.run(SCENARIO)
    assert room.run(SCENARIO) is not room.run(SCENARIO, {"VARIABLE": "1"})
    assert ran == [{}, {"VARIABLE": "1"}]


def test_a_failed_run_fails_every_test_that_asks_for_it(ran: list[dict[str, str]]) -> None:
    frames = set()
    for _ in range(2):
        with pytest.raises(RunError, match="rank 1 ended") as raised:
            room.run(SCENARIO, {"FAIL": "1"})
        frames.add(len(raised.traceback))  # of this test alone

    assert len(frames) == 1
    assert ran == [{"FAIL": "1"}]


@pytest.mark.parametrize("launch", ["script", "torchrun"])
def test_hanging_ranks_are_ended_with_their_stacks(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LIMIT_S", 30.0)
    waits = Scenario("cpu", TRAINERS[0], (reference(train_side_by_side),), 2, launch=launch, resume=str(tmp_path))

    with pytest.raises(HungError, match="did not end within 30 s") as hung:
        room.play([(waits, room.new_folder())], {})

    stacks = re.findall(r"^rank (\d) \(process (\d+)\):$((?:\n(?!rank).*)*)", str(hung.value), flags=re.MULTILINE)
    waiting = {rank for rank, _, stack in stacks if "in _meet" in stack}
    assert waiting == {"0", "1"}
    assert [pid for _, pid, _ in stacks if Path(f"/proc/{pid}/exe").exists()] == []


def test_unreported_topic_has_its_steps_output() -> None:
    said = "".join(f"{BEGINS.format(7, f'ours:{name}')}\n{name} is slow\n" for name in ("loop", "train", "hook"))
    outcome = RunResult(Path(), {"failed hook": [{"reason": "ValueError: no", "hung": False}]}, said)

    with pytest.raises(AssertionError) as raised:
        outcome.ranks("train mlp")

    assert str(raised.value) == "no findings about 'train mlp'\ntrain is slow\n"


FINDINGS: Findings = {
    "train mlp": [{}, {}],
    "loop": [{}],
    "failed train": [{"reason": "ValueError: in train", "hung": False}],
    "failed loop": [{"reason": "it did not end", "hung": True}],
    "wait": [{}, {}],
    "failed wait": [{"reason": "RuntimeError: a late error", "hung": False}],
}


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        ("train tied", AssertionError, "ValueError: in train"),
        ("loop", HungError, "it did not end"),
        ("wait", AssertionError, "RuntimeError: a late error"),
    ],
)
def test_failed_step_fails_its_missing_topics(topic: str, error: type[Exception], text: str) -> None:
    outcome = RunResult(Path(), FINDINGS, "", world_size=2)

    assert outcome.ranks("train mlp") == [{}, {}]
    with pytest.raises(error) as raised:
        outcome.ranks(topic)

    assert str(raised.value) == text


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The steps of each start of two ranks in one output; "crash" fails in one, and "hang" hangs."""
    starts: list[tuple[str, ...]] = []

    def play(plays: Sequence[tuple[Scenario, Path]], _: object) -> list[list[int]]:
        ((scenario, folder),) = plays
        starts.append(scenario.steps)
        with (folder / "said-0.txt").open("w") as said:
            for before, step in zip(("", *scenario.steps), (*scenario.steps, LAST), strict=True):
                said.write(f"{BEGINS.format(0, step)}\n")  # the rank that is ahead of the other
                if before == "ours:crash":
                    said.write("AssertionError: in crash\n")
                    return [[1]]
                if before == "ours:hang":
                    raise HungError("it did not end")
                said.write(f"{BEGINS.format(1, step)}\nin {step}\n")
        return [[0]]

    monkeypatch.setattr(room, "play", play)
    return starts


STEPS = tuple(f"ours:{name}" for name in ("train", "crash", "loop", "hang", "hook"))


def test_steps_after_a_failure_get_new_processes(steps: list[tuple[str, ...]]) -> None:
    """A failed run without a failed step to go on from raises."""
    result = room._run(Scenario("cpu", "", STEPS, 2), {})

    said = (
        f"{BEGINS.format(1, 'ours:crash')}\nin ours:crash\n{BEGINS.format(0, 'ours:loop')}\nAssertionError: in crash\n"
    )
    assert steps == [STEPS, STEPS[2:], STEPS[4:]]
    assert result.findings == {
        "failed crash": [{"reason": f"the step 'ours:crash' failed with [1]; it said:\n{said}", "hung": False}],
        "failed hang": [{"reason": "it did not end", "hung": True}],
    }
    with pytest.raises(RunError, match=r"failed with \[1\]:\n(?s:.*)in crash"):
        room._run(Scenario("cpu", "", ("ours:crash",), 2), {})


def test_a_run_is_not_continued_when_it_is_old(steps: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LAST_RESTART_S", -1.0)

    result = room._run(Scenario("cpu", "", ("ours:hang", "ours:train"), 2), {})

    assert len(steps) == 1
    with pytest.raises(HungError, match="'ours:train' did not begin: the run was too old after the step 'ours:hang'"):
        result.ranks("train mlp")


def test_topic_of_a_refused_step_is_refused_alike() -> None:
    """Which does not excuse the step beside it."""
    findings: Findings = {
        "refused train_scaled": [{"message": "acme has no float16", "capability": "float16"}] * 2,
        "failed tune": [{"reason": "ValueError: no", "hung": False}],
    }
    outcome = RunResult(Path(), findings, "")

    with pytest.raises(UnsupportedError, match="acme has no float16") as caught:
        outcome.ranks("train_scaled resumed")

    assert caught.value.capability == "float16"
    with pytest.raises(AssertionError, match="no findings about 'train mlp'"):
        outcome.ranks("train mlp")


def test_concurrent_callers_wait_and_get_its_folder(tmp_path: Path) -> None:
    ran: list[str] = []

    def run() -> Path:
        ran.append("run")
        time.sleep(0.2)
        return tmp_path / "run"

    with ThreadPoolExecutor() as suites:
        folders = list(suites.map(lambda _: run_once(tmp_path, "training on 2", run), range(3)))

    assert (folders, ran) == ([tmp_path / "run"] * 3, ["run"])


def test_one_that_failed_is_tried_again_by_the_next(tmp_path: Path) -> None:
    def fail() -> Path:
        raise RuntimeError("rank 1 ended")

    with pytest.raises(RuntimeError, match="rank 1 ended"):
        run_once(tmp_path, "training", fail)

    assert run_once(tmp_path, "training", lambda: tmp_path / "run") == tmp_path / "run"
    assert run_once(tmp_path, "saving", lambda: tmp_path / "other") == tmp_path / "other"


@pytest.mark.parametrize(
    ("accelerator", "of_the_second", "folders"),
    [
        ("cpu", {"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"}, 1),
        ("cpu_sim", {}, 1),
        ("cpu_sim", {"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"}, 2),
        ("cpu_sim", {"TORCH_SHOW_CPP_STACKTRACES": "1"}, 2),
    ],
    ids=["the CPU's, of chips that differ", "a chip's", "of a chip that differs", "of a torch that does"],
)
def test_two_suites_share_a_run_where_it_is_the_same(
    accelerator: str, of_the_second: dict[str, str], folders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(room, "_run_in", lambda folder, *_: folder)
    scenario = Scenario(accelerator, "lightning.pytorch", ("ours:train",))

    found = set()
    for variables in ({}, of_the_second):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(room, "_results", {})
        found.add(room.run(scenario).folder)

    assert len(found) == folders
    assert all(folder.is_dir() for folder in found)


SECOND = Scenario("cpu", "lightning.pytorch", ("ours:save",))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of scenarios started at once; the second of two is killed, and one with ``HANG`` never ends."""
    numbers: list[int] = []

    def play(
        plays: Sequence[tuple[Scenario, Path]], environ: Mapping[str, str], at_end: Callable[[], None]
    ) -> list[list[int]]:
        numbers.append(len(plays))
        if "HANG" in environ:
            raise HungError("it did not end")
        for number, (_, folder) in enumerate(plays):
            (folder / "said-0.txt").write_text(f"job {number}")
        at_end()
        return [[0], [-9]][: len(plays)]

    monkeypatch.setattr(room, "play", play)
    monkeypatch.setattr(room, "_ends", {})
    return numbers


def test_side_by_side_runs_start_at_once(played: list[int]) -> None:
    """Tests that ask for the same end share the run."""
    first, second = run_to_the_end(SCENARIO, SECOND, environ={})

    assert (first.codes, second.codes) == ((0,), (-9,))
    assert (first.said, second.said) == ("job 0", "job 1")
    assert first.folder != second.folder
    assert run_to_the_end(SCENARIO, SECOND, environ={})[0] is first
    for _ in range(2):
        with pytest.raises(HungError, match="it did not end"):
            run_to_the_end(SCENARIO, environ={"HANG": "1"})
    assert played == [2, 1]
