"""A report, or several side by side, as one HTML page that loads nothing from the network."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from northbridge.untrusted.text import clean
from northbridge_conformance.report.pages import meanings, overview, units
from northbridge_conformance.report.pages.comparison import compare
from northbridge_conformance.report.pages.shown import ShownTest, show_tests
from northbridge_conformance.report.report import Report, TestResult
from northbridge_conformance.verdict import Verdict

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
    environment.globals |= {"meanings": meanings, "overview": overview, **Verdict.__members__}
    environment.filters |= {
        "seconds": units.show_seconds,
        "memory": units.show_memory,
        "moment": units.show_moment,
    }
    return environment


def _clean(value: Any) -> Any:
    """Clean every text that a template shows; only our own text is markup."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _read(name: str) -> str:
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
