"""Questions to separate processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.conftest import Install

from northbridge_conformance.runs import question
from northbridge_conformance.runs.question import ANSWER, ask, ask_again
from northbridge_conformance.runs.scenario import HungError

QUESTIONS = """
import os, sys, threading

def add(*words):
    print("thinking")
    return {"sum": "+".join(words), "pid": os.getpid()}

def read(*names):
    return {name: os.environ.get(name) for name in names}

def crash():
    os.abort()

def leave():
    raise SystemExit("no licence")

def hang():
    threading.Event().wait()

def find_modules():
    return {name: name in sys.modules for name in ("torch", "pytest")}
"""


@pytest.fixture(autouse=True)
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions of the tests' own, which nobody has asked before."""
    (tmp_path / "questions").mkdir()
    (tmp_path / "answer.py").write_text(Path(question.ANSWER).read_text())
    (tmp_path / "questions" / "ours.py").write_text(QUESTIONS)
    monkeypatch.setattr(question, "ANSWER", str(tmp_path / "answer.py"))
    monkeypatch.setattr(question, "_answers", {})


def test_one_question_is_asked_once() -> None:
    """The answer comes with what was printed; a measurement is taken again."""
    answer = ask("ours:add", "1", "2")

    assert (answer.facts["sum"], answer.said) == ("1+2", "thinking\n")
    assert ask("ours:add", "1", "2") is answer
    assert ask("ours:add", "1", "2", user={"ANVIL": "1"}) is not answer
    assert ask_again("ours:add", "1", "2").facts["pid"] != answer.facts["pid"]


def test_process_afresh_has_nothing() -> None:
    assert ask("ours:find_modules").facts == {"torch": False, "pytest": False}


def test_users_variables_win_and_no_rank_is_handed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("_NORTHBRIDGE_DETECTED", '{"acme": {"devices": 8}}')
    names = ("RANK", "_NORTHBRIDGE_DETECTED", "OMP_NUM_THREADS", "ANVIL")

    answer = ask("ours:read", *names, environ={"ANVIL": "0"}, user={"ANVIL": "1", "OMP_NUM_THREADS": "3"})

    assert answer.facts == dict(zip(names, (None, None, "3", "1"), strict=True))


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("ours:crash", "was killed by SIGABRT:\nFatal Python error: Aborted"),
        ("ours:leave", "ended with exit code 1:\nno lic"),
    ],
)
def test_process_without_an_answer_is_a_failure(question: str, told: str) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            ask(question)

        assert f"the process for {question} {told}" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [("plugin:detect", ()), ("plugin:miss_software", ("", "lightning.pytorch")), ("software:load", ("0", "1"))],
)
def test_a_detection_that_takes_long_is_a_timeout(
    install_here: Install, monkeypatch: pytest.MonkeyPatch, asked: str, arguments: tuple[str, ...]
) -> None:
    """Not a failure of the plugin: the machine may be busy."""
    monkeypatch.setattr(question, "ANSWER", ANSWER)
    install_here("detect_hangs")

    with pytest.raises(HungError, match=rf"^{asked}: .* detect\(\) took longer than 0\.1 s\. Fix: try when"):
        ask_again(asked, "detect_hangs", *arguments, environ={"NORTHBRIDGE_DETECT_TIMEOUT": "0.1"})


def test_a_process_that_hangs_is_ended_and_shows_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "LIMIT_S", 3.0)

    with pytest.raises(RuntimeError, match="did not end within 3 s") as caught:
        ask("ours:hang")

    assert "in wait" in str(caught.value)
    assert "ours.py" in str(caught.value)
