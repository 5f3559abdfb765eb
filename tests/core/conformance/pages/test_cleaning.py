"""Evidence as it is shown: whatever a process printed, it can be read, and does nothing."""

from __future__ import annotations

import pytest

from northbridge.conformance.pages.cleaning import choose_excerpt, clean, is_long


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        pytest.param("\x1b[1;31mE  assert\x1b[0m 1", "E  assert 1", id="colours"),
        pytest.param("\x1b]8;;https://example.org\x07link\x1b]8;;\x07", "link", id="a terminal's link"),
        pytest.param("\x1b(Bplain\x1b=", "plain", id="other codes of terminals"),
        pytest.param("10%\r20%\r\ndone", "10%\n20%\ndone", id="a progress bar"),
        pytest.param("a\x00b\x07", "a\\u0000b\\u0007", id="control characters"),
        pytest.param("rank \u202e0 knar", "rank \\u202e0 knar", id="what turns the order of words"),
        pytest.param("\ud800", "\\ud800", id="half a character"),
        pytest.param("\tdéjà vu, 試験\n", "\tdéjà vu, 試験\n", id="text of any language"),
    ],
)
def test_what_is_shown_of_what_was_printed(printed: str, shown: str) -> None:
    assert clean(printed) == shown


def test_a_traceback_is_long_and_a_line_is_not() -> None:
    assert is_long("line\n" * 40)
    assert is_long("x" * 5000)
    assert not is_long("E  assert 1 == 2")


def test_the_excerpt_of_a_traceback_is_what_pytest_marks() -> None:
    traceback = "def test():\n" + "    step()\n" * 50 + "E  AssertionError: no\nE  assert 1 == 2\n\nfile.py:3"

    assert choose_excerpt(traceback) == "E  AssertionError: no\nE  assert 1 == 2"


def test_the_excerpt_of_other_evidence_is_its_end() -> None:
    stacks = "\n".join(f"frame {number}" for number in range(100))

    assert choose_excerpt(stacks).splitlines() == [f"frame {number}" for number in range(92, 100)]
