"""Tests as a page shows them: long evidence folded, and what many tests left alike shown once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from northbridge.conformance.report.report import TestResult
from northbridge.conformance.verdict import Ending
from northbridge.untrusted.text import clean

SHOWN_LINES = 14
"""How much evidence stands open on a page; more is folded."""

_SHOWN_CHARACTERS = 1400


@dataclass(frozen=True)
class ShownTest:
    """A test, and its evidence as it is shown."""

    result: TestResult
    anchor: str
    evidence: str
    """Empty where it stands elsewhere."""

    excerpt: str
    """Lines of folded evidence that stay visible."""

    same_as: ShownTest | None
    """The earlier test that left the same long evidence, as all do that look at a run that failed."""

    @property
    def lines(self) -> int:
        """How many lines the evidence has."""
        return self.evidence.count("\n") + 1

    @property
    def refused(self) -> bool:
        """Whether the backend refused what was asked."""
        return self.result.ending is Ending.REFUSED


def show_tests(tests: Iterable[TestResult]) -> list[ShownTest]:
    """Return ``tests`` as they are shown."""
    shown: list[ShownTest] = []
    first: dict[str, ShownTest] = {}
    for number, test in enumerate(tests, start=1):
        evidence = clean(test.evidence).strip("\n")
        folded = is_long(evidence)
        same_as = first.get(evidence) if folded else None
        excerpt = choose_excerpt(evidence) if folded and same_as is None else ""
        one = ShownTest(test, f"test-{number}", "" if same_as is not None else evidence, excerpt, same_as)
        if folded:
            first.setdefault(evidence, one)
        shown.append(one)
    return shown


def is_long(text: str) -> bool:
    """Whether ``text`` is too long to stand open on a page."""
    return text.count("\n") >= SHOWN_LINES or len(text) > _SHOWN_CHARACTERS


def choose_excerpt(text: str) -> str:
    """Return the lines that say most: those that pytest marks with ``E``, or else the last; at most eight."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("E ")][:8] or lines[-8:]
    return "\n".join(f"{line[:240]}…" if len(line) > 240 else line for line in telling)
