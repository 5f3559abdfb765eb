"""Questions to separate processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.conftest import Install

from northbridge_conformance.runs import question
from northbridge_conformance.runs.question import ANSWER, ask, ask_again
from northbridge_conformance.runs.run_errors import HungError

QUESTIONS = {
    "adding": (
        "import os\ndef answer(*words):\n    print('thinking')\n"
        "    return {'sum': '+'.join(words), 'pid': os.getpid()}\n"
    ),
    "variables": "import os\ndef answer(*names):\n    return {name: os.environ.get(name) for name in names}\n",
    "crashing": "import os\ndef answer():\n    os.abort()\n",
    "exiting": "def answer():\n    raise SystemExit('no licence')\n",
    "hanging": "import threading\ndef answer():\n    threading.Event().wait()\n",
    "torch": "import sys\ndef answer():\n    return {name: name in sys.modules for name in ('torch', 'pytest')}\n",
}


@pytest.fixture(autouse=True)
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions of the tests' own, which nobody has asked before."""
    (tmp_path / "questions").mkdir()
    (tmp_path / "answer.py").write_text(Path(question.ANSWER).read_text())
    for name, code in QUESTIONS.items():
        (tmp_path / "questions" / f"{name}.py").write_text(code)
    monkeypatch.setattr(question, "ANSWER", str(tmp_path / "answer.py"))
    monkeypatch.setattr(question, "_answers", {})


def test_the_answer_comes_back_with_what_was_printed() -> None:
    answer = ask("adding", "1", "2")

    assert answer.facts["sum"] == "1+2"
    assert answer.said == "thinking\n"


def test_one_question_is_asked_once() -> None:
    assert ask("adding", "1") is ask("adding", "1")
    assert ask("adding", "1") is not ask("adding", "2")
    assert ask("adding", "1") is not ask("adding", "1", user={"ANVIL": "1"})


def test_a_measurement_is_taken_again() -> None:
    assert ask_again("adding", "1").facts["pid"] != ask_again("adding", "1").facts["pid"]


def test_process_afresh_has_nothing() -> None:
    assert ask("torch").facts == {"torch": False, "pytest": False}


def test_users_variables_win_and_no_rank_is_handed_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("_NORTHBRIDGE_DETECTED", '{"acme": {"devices": 8}}')
    names = ("RANK", "_NORTHBRIDGE_DETECTED", "OMP_NUM_THREADS", "ANVIL")

    answer = ask("variables", *names, environ={"ANVIL": "0"}, user={"ANVIL": "1", "OMP_NUM_THREADS": "3"})

    assert answer.facts == dict(zip(names, (None, None, "3", "1"), strict=True))


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("crashing", "was killed by SIGABRT:\nFatal Python error: Aborted"),
        ("exiting", "ended with exit code 1:\nno lic"),
    ],
)
def test_process_without_an_answer_is_a_failure(question: str, told: str) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            ask(question)

        assert f"the process for {question} {told}" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [("detection", ()), ("missing_software", ("", "lightning.pytorch")), ("software", ("0", "1"))],
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
        ask("hanging")

    assert "in wait" in str(caught.value)
    assert "hanging.py" in str(caught.value)
