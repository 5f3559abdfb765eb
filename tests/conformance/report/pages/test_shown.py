"""Evidence as it is shown: cut to what says most."""

from __future__ import annotations

from northbridge_conformance.report.pages.shown import choose_excerpt, is_long


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
