"""How the suite runs a scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from northbridge.conformance import run as room
from northbridge.conformance.run import RunResult
from northbridge.conformance.runs.run_errors import HungError, RunError
from northbridge.conformance.runs.scenario import Launch, Scenario
from northbridge.conformance.suite import TRAINERS
from northbridge.errors import UnsupportedError

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


def test_unreported_topic_says_why_its_own_step_failed() -> None:
    failed = {f"failed {step}": [{"traceback": f"ValueError: in {step}"}] for step in ("fabric", "training")}
    outcome = RunResult(Path(), failed, "the end of the log")

    for topic, said in (("training mlp", "ValueError: in training"), ("hooks", "the end of the log")):
        with pytest.raises(AssertionError) as raised:
            outcome.ranks(topic)
        assert str(raised.value) == f"nothing was found out about {topic!r}\n{said}"


def test_topic_of_a_refused_step_is_refused_alike() -> None:
    refused = [{"message": "acme has no float16", "capability": "float16"}] * 2
    findings = {"refused precision.scaler": refused, "failed training.tune": [{"traceback": "ValueError: no"}]}
    outcome = RunResult(Path(), findings, "")

    with pytest.raises(UnsupportedError, match="acme has no float16") as caught:
        outcome.ranks("precision.scaler resumed")

    assert caught.value.capability == "float16"


def test_a_refusal_does_not_excuse_the_step_beside_it() -> None:
    refused = [{"message": "acme has no float16", "capability": "float16"}]
    outcome = RunResult(Path(), {"refused precision.scaler": refused}, "")

    with pytest.raises(AssertionError, match="nothing was found out about 'training mlp'"):
        outcome.ranks("training mlp")
