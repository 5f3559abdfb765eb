"""A backend's own pytest judges as the command does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

import northbridge
from northbridge import Capabilities, no, yes
from northbridge.conformance.suite import Suite, shows
from northbridge.errors import UnsupportedError

northbridge.get("cpu_sim")
backend = northbridge.discovery.declared._declared["cpu_sim"]
object.__setattr__(backend, "capabilities", Capabilities(views=yes, float16=no("it has no such unit")))


class TestSample(Suite):
    level = "C1"
    adopted_for = "cpu_sim"

    @shows("views")
    def test_claimed_and_works(self):
        pass

    @shows("views")
    def test_claimed_and_fails(self):
        raise AssertionError("it copies")

    @shows("float16")
    def test_denied_and_refused(self):
        raise UnsupportedError("float16 was asked for", capability="float16")

    @shows("float16")
    def test_denied_and_works(self):
        pass

    @shows("float16")
    def test_denied_and_wrong(self):
        raise AssertionError("wrong numbers")

    @shows("barrier")
    def test_unknown_and_works(self):
        pass

    @shows("barrier")
    def test_unknown_and_fails(self):
        raise AssertionError("it does not wait")

    @pytest.fixture
    def refused(self):
        raise UnsupportedError("float16 was asked for", capability="float16")

    @shows("float16")
    def test_denied_and_what_it_needs_is_refused(self, refused):
        raise AssertionError("never called")

    def test_of_no_claim(self):
        raise UnsupportedError("float16 was asked for", capability="float16")


class TestOfAnAbsentBackend(Suite):
    level = "C1"
    adopted_for = "nobody"

    @shows("views")
    def test_its_claims_are_unreadable_and_it_fails(self):
        raise AssertionError("it copies")

    @shows("views")
    def test_its_claims_are_unreadable_and_it_works(self):
        pass


def test_of_somebody_else():
    raise UnsupportedError("float16 was asked for", capability="float16")
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return pytest's output for the sample."""
    folder: Path = tmp_path_factory.mktemp("sample")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_sample.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "--tb=short", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("test", "word"),
    [
        ("claimed_and_works", "PASSED"),
        ("claimed_and_fails", "FAILED"),
        ("denied_and_refused", "PASSED"),
        ("denied_and_works", "FAILED"),
        ("denied_and_wrong", "FAILED"),
        ("unknown_and_works", "SKIPPED"),
        ("unknown_and_fails", "SKIPPED"),
        ("denied_and_what_it_needs_is_refused", "SKIPPED"),
        ("of_no_claim", "FAILED"),
        ("of_somebody_else", "FAILED"),
        ("its_claims_are_unreadable_and_it_fails", "FAILED"),
        ("its_claims_are_unreadable_and_it_works", "FAILED"),
    ],
)
def test_a_test_ends_as_its_verdict(said: str, test: str, word: str) -> None:
    line = next(line for line in said.splitlines() if f"::test_{test} " in line)

    assert word in line


def test_a_hidden_capability_is_told(said: str) -> None:
    assert "UNDERCLAIM: cpu_sim says float16: no, and it works; claim it, or refuse it" in said


def test_what_is_unknown_is_told_with_what_came_of_it(said: str) -> None:
    assert "cpu_sim says barrier: unknown; it worked" in said
    assert "cpu_sim says barrier: unknown; it failed" in said
    assert "cpu_sim says float16: no, and it is refused" in said


def test_where_the_claims_cannot_be_read_the_reason_is_told(said: str) -> None:
    assert "E   AssertionError: it copies" in said
    assert "nobody" in said.partition("test_its_claims_are_unreadable_and_it_works")[2]
