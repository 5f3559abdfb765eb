"""Effects of a vendor's import on the environment, the words for ranks in it, and how processes end."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import pytest

from northbridge import keep_environment
from northbridge.errors import DetectionError
from northbridge.processes import environment as given
from northbridge.processes.endings import describe_error, describe_exit
from northbridge.processes.environment import (
    children_listen,
    compiling_nothing,
    forget,
    hand_down,
    handed_down,
    may_compile,
)

WORD = "_NORTHBRIDGE_TEST"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACME_PORT", "ACME_CARD"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("users", "fails"), [(None, True), ("29500", False)])
def test_what_the_user_set_is_there_again(users: str | None, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other variables are left as the import made them."""
    monkeypatch.setenv("ACME_CARD", "3")
    if users is not None:
        monkeypatch.setenv("ACME_PORT", users)

    with suppress(ImportError), keep_environment(["ACME_PORT"]):
        os.environ["ACME_PORT"], os.environ["ACME_CARD"] = "12345", "4"
        if fails:
            raise ImportError("no driver")

    assert (os.environ.get("ACME_PORT"), os.environ["ACME_CARD"]) == (users, "4")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps the environment that a process began with")
@pytest.mark.parametrize(
    ("users", "written", "kept"),
    [
        ("12345", "12345", None),  # an earlier import wrote it
        ("29500", "12345", "29500"),  # the script has set it to something else
        ("2", None, "2"),  # an import would not write it
    ],
)
def test_what_an_earlier_import_wrote_is_put_back(
    users: str, written: str | None, kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_PORT", users)

    with keep_environment(["ACME_PORT"], written={"ACME_PORT": written}):
        pass

    assert os.environ.get("ACME_PORT") == kept


def test_word_is_set_only_while_ranks_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child hears the word, and may set another."""
    monkeypatch.setattr(given, "_words", {})
    monkeypatch.delenv(WORD, raising=False)
    hand_down(WORD, "8 devices")

    before = os.environ.get(WORD)
    with children_listen():
        inside = os.environ.get(WORD)
    assert (before, inside, os.environ.get(WORD)) == (None, "8 devices", None)
    assert handed_down(WORD) == "8 devices"

    monkeypatch.setattr(given, "_words", {})
    monkeypatch.setenv(WORD, "of the parent")
    assert handed_down(WORD) == "of the parent"
    hand_down(WORD, "its own")
    with children_listen():
        assert os.environ[WORD] == "its own"
    assert os.environ[WORD] == "of the parent"
    forget(WORD)
    assert handed_down(WORD) is None
    with compiling_nothing():
        compiled = may_compile()
    assert (compiled, may_compile()) == (False, True)


@pytest.mark.parametrize(
    ("code", "told"), [(0, "ended with exit code 0"), (-15, "was killed by SIGTERM"), (-40, "was killed by signal 40")]
)
def test_the_end_of_a_process_in_words(code: int, told: str) -> None:
    assert describe_exit(code) == told


def test_what_a_vendors_code_raised_is_one_short_line() -> None:
    """An error of ours is told to its end, where it says what to do."""
    error = DetectionError(f"{'the driver ' * 30}hangs. Fix: restart it", backend="acme")

    assert describe_error(ValueError("no\n  card\x1b[2J")) == "ValueError: no card"
    assert describe_error(ValueError("x" * 1000)) == f"ValueError: {'x' * 199}…"
    assert describe_error(ValueError()) == "ValueError"
    assert describe_error(error) == f"DetectionError: {error}"

    class Broken(Exception):
        def __str__(self) -> str:
            raise KeyError("text")

    assert describe_error(Broken()) == "Broken: (its text cannot be read: KeyError)"
