"""A report as Markdown, for a README or an issue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from northbridge.untrusted.text import clean
from northbridge_conformance.report.failure import say_plainly
from northbridge_conformance.report.overview import (
    ATTENTION,
    MARKS,
    SIMULATED,
    count_devices,
    count_operators,
    count_run,
    count_verdicts,
    explain_level,
    group_by_reason,
    group_claims,
    list_doubts,
    list_silent_errors,
    list_software,
    name_level,
    name_product,
    of_verdict,
    repeat,
    show_moment,
)
from northbridge_conformance.report.report import Report, TestResult
from northbridge_conformance.verdict import Verdict

_LIMIT = 50_000
"""The maximum length of the page in characters: a GitHub issue holds 65 536."""

_LISTED = 20
"""The maximum number of tests listed for one reason not to run, and of reasons listed for one level."""


def render_markdown(report: Report) -> str:
    """Return the report as a page of Markdown: level, claims, and the tests that did not pass with their evidence.

    Parts that would make it too long for an issue are omitted, and the page says how many.
    """
    backend = report.backend
    parts = [f"# {_escape(name_product(report))}: {_escape(name_level(report))}", explain_level(report)]
    parts += [f"> **{_escape(doubt)}**" for doubt in list_doubts(report)]
    parts += [f"> **{_escape(error)}**" for error in list_silent_errors(report)]
    if backend.simulated:
        parts.append(SIMULATED)
    verdicts = ", ".join(f"{number} {verdict.value}" for verdict, number in count_verdicts(report).items())
    claims = ", ".join(f"{len(names)} {finding}" for finding, names in group_claims(report).items())
    operators = f" Operators of torch: {said}." if (said := count_operators(report)) else ""
    parts.append(
        f"{count_run(report)} of {len(report.tests)} tests ran: {verdicts or 'none'}."
        f" Claims: {claims or 'none'}.{operators}"
        f" {_escape(backend.distribution)} {_escape(backend.version)}, {_escape(count_devices(report))},"
        f" {_escape(show_moment(report.began))}, Northbridge {_escape(report.suite.northbridge)}."
    )
    parts += [f"Software: {_escape(list_software(report))}.", f"Repeat it: {_quote(repeat(report))}"]
    parts += ["## Levels", _list_levels(report), "## Claims", _list_claims(report)]
    bad = _list_bad(report)
    if bad:
        parts.append("## What did not pass")
    room = _LIMIT - sum(map(len, parts))
    for index, (_, part) in enumerate(bad):
        room -= len(part)
        if room < 0:
            left = sum(number for number, _ in bad[index:])
            parts.append(f"{left} more did not pass; they are in `index.html` and in `report.json`.")
            break
        parts.append(part)
    unknown = len(of_verdict(report, Verdict.UNKNOWN))
    if unknown:
        parts += ["## Unknown", f"Tests of claims on which the backend says nothing, which proves nothing: {unknown}."]
    return "\n\n".join(parts) + "\n"


def _list_bad(report: Report) -> list[tuple[int, str]]:
    """Return the text about the tests that did not pass: for each part, the number of its tests and the text."""
    parts = [(1, _show_test(report, test)) for test in of_verdict(report, *ATTENTION)]
    for reason, tests in group_by_reason(of_verdict(report, Verdict.NOT_RUN)).items():
        ids = ", ".join([_quote(test.id) for test in tests[:_LISTED]] + _count_rest(tests))
        parts.append((len(tests), f"### NOT RUN: {_escape(reason[:400])}\n\n{ids}"))
    return parts


def _count_rest(listed: Sequence[object]) -> list[str]:
    return [f"and {len(listed) - _LISTED} more"] if len(listed) > _LISTED else []


def _list_levels(report: Report) -> str:
    rows = []
    for level in report.levels:
        reasons = [*level.withheld[:_LISTED], *_count_rest(level.withheld)]
        outcome = "granted" if level.granted else "; ".join(reasons) or "withheld"
        name = _escape(f"{level.name} {level.title}")
        rows.append((name, "yes" if level.granted else "no", str(level.cases), _escape(outcome)))
    return _table(("Level", "Granted", "Tests that ran", "Why"), rows)


def _list_claims(report: Report) -> str:
    rows = []
    for finding, names in group_claims(report).items():
        for name in names:
            claim = report.claims[name]
            name = _quote(name).replace("|", "\\|")  # it ends a cell in code, too
            found = f"{MARKS[finding]} {finding}"
            rows.append((name, claim.answer, found, str(claim.tests), _escape(claim.reason)))
    return _table(("Claim", "The backend says", "Finding", "Tests", "Reason"), rows)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _show_test(report: Report, test: TestResult) -> str:
    parts = [f"### {test.verdict.value}: {_escape(test.title)}"]
    if words := say_plainly(clean(test.evidence)):
        parts.append(_fence(words))
    parts.append(f"Repeat it: {_quote(repeat(report, test))}")
    if test.advice:
        parts.append(f"What to do: {_escape(test.advice)}")
    return "\n\n".join(parts)


def _fence(text: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _quote(text: str) -> str:
    """Return ``text`` as inline code."""
    text = " ".join(clean(text).split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _escape(text: str) -> str:
    """Return ``text`` on one line, with all markup escaped."""
    return re.sub(r"([\\`*_\[\]<>|~#&])", r"\\\1", " ".join(clean(text).split()))
