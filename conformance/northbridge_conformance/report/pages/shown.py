"""Tests as a page shows them: long evidence folded, and evidence that many tests share shown once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from northbridge.untrusted.text import clean
from northbridge_conformance.report.report import TestResult
from northbridge_conformance.verdict import Ending

SHOWN_LINES = 14
"""The number of lines of evidence that a page shows; longer evidence is folded."""

_SHOWN_CHARACTERS = 1400


@dataclass(frozen=True)
class ShownTest:
    """A test, and its evidence as the page shows it."""

    result: TestResult
    anchor: str
    evidence: str
    """Empty if :attr:`same_as` shows it."""

    excerpt: str
    """Lines of folded evidence that stay visible."""

    same_as: ShownTest | None
    """The earlier test with the same long evidence, as with all tests that read one failed run."""

    @property
    def lines(self) -> int:
        """The number of lines of the evidence."""
        return self.evidence.count("\n") + 1

    @property
    def refused(self) -> bool:
        """True if the backend refused the operation."""
        return self.result.ending is Ending.REFUSED


def show_tests(tests: Iterable[TestResult]) -> list[ShownTest]:
    """Return ``tests`` in the form in which a page shows them."""
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
    """Return True if ``text`` is too long to be shown unfolded."""
    return text.count("\n") >= SHOWN_LINES or len(text) > _SHOWN_CHARACTERS


def choose_excerpt(text: str) -> str:
    """Return the most informative lines: those that pytest marks with ``E``, or else the last; at most eight."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("E ")][:8] or lines[-8:]
    return "\n".join(f"{line[:240]}…" if len(line) > 240 else line for line in telling)
