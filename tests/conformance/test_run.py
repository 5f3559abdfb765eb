"""Runs of a scenario."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from northbridge.errors import UnsupportedError
from northbridge_conformance import run as room
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.findings import Findings
from northbridge_conformance.runs.run_errors import HungError, RunError
from northbridge_conformance.runs.scenario import BEGINS, LAST, Launch, Scenario
from northbridge_conformance.suite import TRAINERS

SCENARIO = Scenario("cpu", "lightning.pytorch", ("training",))


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
    assert room.run(SCENARIO) is room.run(SCENARIO)
    assert ran == [{}]


def test_in_another_environment_it_is_another_run(ran: list[dict[str, str]]) -> None:
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
    waits = Scenario("cpu", TRAINERS[0], ("side_by_side",), 2, launch=launch, resume=str(tmp_path))

    with pytest.raises(HungError, match="did not end within 30 s") as hung:
        room.play([(waits, room.new_folder())], {})

    stacks = re.findall(r"^rank (\d) \(process (\d+)\):$((?:\n(?!rank).*)*)", str(hung.value), flags=re.MULTILINE)
    waiting = {rank for rank, _, stack in stacks if "in _meet" in stack}
    assert waiting == {"0", "1"}
    assert [pid for _, pid, _ in stacks if Path(f"/proc/{pid}/exe").exists()] == []


def test_a_fact_of_each_rank() -> None:
    outcome = RunResult(Path(), {"training": [{"weights": "a"}, {"weights": "b"}]}, "")

    assert outcome.each("training", "weights") == ["a", "b"]


def test_unreported_topic_has_its_steps_output() -> None:
    said = "".join(f"{BEGINS.format(7, step)}\n{step} is slow\n" for step in ("fabric", "training", "hooks"))
    outcome = RunResult(Path(), {"failed hooks": [{"reason": "ValueError: no", "hung": False}]}, said)

    with pytest.raises(AssertionError) as raised:
        outcome.ranks("training mlp")

    assert str(raised.value) == "no findings about 'training mlp'\ntraining is slow\n"


FINDINGS: Findings = {
    "training mlp": [{}, {}],
    "fabric": [{}],
    "failed training": [{"reason": "ValueError: in training", "hung": False}],
    "failed fabric": [{"reason": "it did not end", "hung": True}],
    "waits": [{}, {}],
    "failed waits": [{"reason": "RuntimeError: a late error", "hung": False}],
}


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        ("training tied", AssertionError, "ValueError: in training"),
        ("fabric", HungError, "it did not end"),
        ("waits", AssertionError, "RuntimeError: a late error"),
    ],
)
def test_failed_step_fails_its_missing_topics(topic: str, error: type[Exception], text: str) -> None:
    outcome = RunResult(Path(), FINDINGS, "", world_size=2)

    assert outcome.ranks("training mlp") == [{}, {}]
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
                if before == "crash":
                    said.write("AssertionError: in crash\n")
                    return [[1]]
                if before == "hang":
                    raise HungError("it did not end")
                said.write(f"{BEGINS.format(1, step)}\nin {step}\n")
        return [[0]]

    monkeypatch.setattr(room, "play", play)
    return starts


def test_steps_after_a_failure_get_new_processes(steps: list[tuple[str, ...]]) -> None:
    result = room._run(Scenario("cpu", "", ("training", "crash", "fabric", "hang", "hooks"), 2), {})

    assert steps == [("training", "crash", "fabric", "hang", "hooks"), ("fabric", "hang", "hooks"), ("hooks",)]
    assert result.findings == {
        "failed crash": [
            {
                "reason": "the step 'crash' failed with [1]; it said:\n"
                f"{BEGINS.format(1, 'crash')}\nin crash\n{BEGINS.format(0, 'fabric')}\nAssertionError: in crash\n",
                "hung": False,
            }
        ],
        "failed hang": [{"reason": "it did not end", "hung": True}],
    }


def test_a_run_is_not_continued_when_it_is_old(steps: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LAST_RESTART_S", -1.0)

    result = room._run(Scenario("cpu", "", ("hang", "training"), 2), {})

    assert len(steps) == 1
    with pytest.raises(HungError, match="'training' did not begin: the run was too old after the step 'hang'"):
        result.ranks("training mlp")


def test_failed_run_without_a_failed_step_raises(steps: list[tuple[str, ...]]) -> None:
    with pytest.raises(RunError, match=r"failed with \[1\]:\n(?s:.*)in crash"):
        room._run(Scenario("cpu", "", ("crash",), 2), {})


def test_topic_of_a_refused_step_is_refused_alike() -> None:
    refused = [{"message": "acme has no float16", "capability": "float16"}] * 2
    findings: Findings = {
        "refused precision.scaler": refused,
        "failed training.tune": [{"reason": "ValueError: no", "hung": False}],
    }
    outcome = RunResult(Path(), findings, "")

    with pytest.raises(UnsupportedError, match="acme has no float16") as caught:
        outcome.ranks("precision.scaler resumed")

    assert caught.value.capability == "float16"


def test_a_refusal_does_not_excuse_the_step_beside_it() -> None:
    refused = [{"message": "acme has no float16", "capability": "float16"}]
    outcome = RunResult(Path(), {"refused precision.scaler": refused}, "")

    with pytest.raises(AssertionError, match="no findings about 'training mlp'"):
        outcome.ranks("training mlp")
