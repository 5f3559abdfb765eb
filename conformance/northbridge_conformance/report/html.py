"""A report, or several side by side, as one HTML page that loads nothing from the network."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from northbridge.errors import ReportError
from northbridge.lightning.plugins.atomic_write import draft_of
from northbridge.untrusted.text import clean
from northbridge_conformance.report import overview
from northbridge_conformance.report.comparison import compare
from northbridge_conformance.report.failure import say_plainly
from northbridge_conformance.report.report import Report, TestResult
from northbridge_conformance.verdict import Ending, Verdict

_PACKAGE = __name__.rpartition(".")[0]


def render_page(*reports: Report) -> str:
    """Return a page: the whole of one report, or the differences between several.

    Raises :class:`ReportError` if no report is given.
    """
    if len(reports) == 1:
        return _render("report.html", **_describe(reports[0]))
    comparison = compare(reports)
    differing = [
        (test, [each for each in zip(comparison.labels, map(_show, test.results), strict=True) if each[1] is not None])
        for test in comparison.differing
    ]
    words = Counter(word for test in (*comparison.differing, *comparison.same) for word in set(test.words))
    counts = {verdict: words[verdict.value] for verdict in overview.ORDER if words[verdict.value]}
    return _render("comparison.html", comparison=comparison, differing=differing, counts=counts)


def write_page(path: Path, text: str) -> Path:
    """Write ``text`` completely or not at all; raises :class:`ReportError` if that fails."""
    try:
        with draft_of(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise ReportError(f"cannot write {path}: {why}. Fix: use another folder") from None
    return path


def _describe(report: Report) -> dict[str, Any]:
    shown = show_tests(overview.of_verdict(report, *overview.ORDER))
    attention = [test for test in shown if test.result.verdict in overview.ATTENTION]
    passed = [test for test in shown if test.result.verdict is Verdict.PASS]
    return {
        "report": report,
        "stopped": next((level for level in report.levels if not level.granted), None),
        "counts": overview.count_verdicts(report),
        "attention": [
            (verdict, list(tests)) for verdict, tests in groupby(attention, lambda each: each.result.verdict)
        ],
        "not_run": overview.group_by_reason(overview.of_verdict(report, Verdict.NOT_RUN)),
        "unknown": [test for test in shown if test.result.verdict is Verdict.UNKNOWN],
        "passed": _group_by_level(passed),
    }


def _show(test: TestResult | None) -> ShownTest | None:
    """Return a test of a comparison with its evidence, or None if it left none."""
    return show_tests([test])[0] if test is not None and test.evidence.strip() else None


def _group_by_level(tests: Iterable[ShownTest]) -> dict[str, dict[str, list[ShownTest]]]:
    """Return the tests by level and then by topic: levels in their order, topics in the order of the run."""
    levels: dict[str, dict[str, list[ShownTest]]] = {}
    for test in tests:
        levels.setdefault(test.result.level, {}).setdefault(test.result.topic, []).append(test)
    return dict(sorted(levels.items()))


def _render(template: str, **context: Any) -> str:
    style, script = _read("page.css"), _read("page.js")
    # The browser itself then refuses everything that the page would fetch, and every script but this one.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(style=Markup(style), script=Markup(script), policy=policy, **context)
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean,
    )
    environment.globals |= {"overview": overview, **Verdict.__members__}
    environment.filters |= {
        "seconds": overview.show_seconds,
        "memory": overview.show_memory,
        "moment": overview.show_moment,
    }
    return environment


def _clean(value: Any) -> Any:
    """Clean every text that a template shows; only our own text is markup."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _read(name: str) -> str:
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


_SHARED_LINES = 3
"""Evidence of more lines is shown once, by the first of the tests that have it."""


@dataclass(frozen=True)
class ShownTest:
    """A test, and its evidence as the page shows it."""

    result: TestResult
    anchor: str
    words: str
    """The failure in plain words; empty if it worked."""

    evidence: str
    """All that pytest says, if that is more; empty if :attr:`same_as` shows it."""

    same_as: ShownTest | None
    """The earlier test with the same evidence, as with all tests that read one failed run."""

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
        words = say_plainly(evidence)
        shared = evidence.count("\n") >= _SHARED_LINES
        same_as = first.get(evidence) if shared else None
        more = "" if same_as is not None or words == evidence else evidence
        one = ShownTest(test, f"test-{number}", "" if same_as is not None else words, more, same_as)
        if shared:
            first.setdefault(evidence, one)
        shown.append(one)
    return shown
