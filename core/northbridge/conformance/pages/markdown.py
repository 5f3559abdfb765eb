"""A report as Markdown, for a README or an issue."""

from __future__ import annotations

import re
from collections.abc import Iterable

from northbridge.conformance.pages.cleaning import clean
from northbridge.conformance.pages.meanings import CLAIMS, SIMULATED
from northbridge.conformance.pages.overview import (
    FAILURES,
    count_run,
    count_verdicts,
    explain_level,
    group_by_reason,
    group_claims,
    list_doubts,
    name_level,
    of_verdict,
)
from northbridge.conformance.pages.units import show_moment
from northbridge.conformance.report import Report, TestResult
from northbridge.conformance.verdict import Verdict

_LIMIT = 50_000
"""How long the page may become, in characters: an issue of GitHub's holds 65 536."""

_LISTED = 20
"""How many tests that could not run for one reason, and how many reasons of a level, are told."""

_EVIDENCE_LINES = 40
_EVIDENCE_CHARACTERS = 4000


def render_markdown(report: Report) -> str:
    """Return the report as a page of Markdown: level, claims, and what did not pass with its evidence.

    What would make it too long for an issue is left out, and the page says how much that is.
    """
    backend = report.backend
    parts = [f"# {_escape(backend.name)}: {_escape(name_level(report))}", explain_level(report)]
    parts += [f"> **{_escape(doubt)}**" for doubt in list_doubts(report)]
    if backend.simulated:
        parts.append(SIMULATED)
    verdicts = ", ".join(f"{number} {verdict.value}" for verdict, number in count_verdicts(report).items())
    claims = ", ".join(f"{len(names)} {finding}" for finding, names in group_claims(report).items())
    parts.append(
        f"{count_run(report)} of {len(report.tests)} tests ran: {verdicts or 'none'}. Claims: {claims or 'none'}."
        f" {_escape(backend.distribution)} {_escape(backend.version)}, {backend.devices} of {_escape(backend.label)},"
        f" {_escape(show_moment(report.began))}, Northbridge {_escape(report.suite.northbridge)}."
    )
    parts += ["## Levels", _list_levels(report), "## Claims", _list_claims(report)]
    parts += _list_failures(report, _LIMIT - sum(map(len, parts)))
    for reason, tests in group_by_reason(of_verdict(report, Verdict.NOT_RUN)).items():
        parts.append(f"### NOT RUN: {_escape(reason)[:400]}")
        shown = ", ".join(_quote(test.id) for test in tests[:_LISTED])
        parts.append(f"{shown}, and {len(tests) - _LISTED} more" if len(tests) > _LISTED else shown)
    unknown = of_verdict(report, Verdict.UNKNOWN)
    if unknown:
        words = (
            f"{len(unknown)} tests are of claims on which the backend says nothing; what came of them proves nothing."
        )
        parts += ["## Unknown", words]
    return "\n\n".join(parts) + "\n"


def _list_failures(report: Report, room: int) -> list[str]:
    failures = of_verdict(report, *FAILURES)
    parts = ["## What did not pass"] if failures else []
    for number, test in enumerate(failures):
        part = _show_test(test)
        room -= len(part)
        if room < 0:
            left = len(failures) - number
            return [*parts, f"{left} more did not pass; they are in `index.html` and in `report.json`."]
        parts.append(part)
    return parts


def _list_levels(report: Report) -> str:
    rows = []
    for level in report.levels:
        reasons = [
            *level.withheld[:_LISTED],
            *([f"and {len(level.withheld) - _LISTED} more"] if len(level.withheld) > _LISTED else []),
        ]
        outcome = "granted" if level.granted else "; ".join(reasons) or "withheld"
        rows.append((f"{level.name} {level.title}", "yes" if level.granted else "no", str(level.cases), outcome))
    return _table(("Level", "Granted", "Tests that ran", "Why"), rows)


def _list_claims(report: Report) -> str:
    rows = []
    for finding, names in group_claims(report).items():
        for name in names:
            claim = report.claims[name]
            rows.append((f"`{name}`", claim.answer, CLAIMS[finding][0].lower(), str(claim.tests), claim.reason))
    return _table(("Claim", "The backend says", "Finding", "Tests", "Reason"), rows)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = (tuple(each if each.startswith("`") else _escape(each) for each in row) for row in rows)
    lines = [heads, ("---",) * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _show_test(test: TestResult) -> str:
    parts = [f"### {test.verdict.value}: {_escape(test.title)}", f"{_quote(test.id)}"]
    evidence = clean(test.evidence).strip("\n")
    if evidence:
        parts.append(_fence(evidence))
    if test.advice:
        parts.append(f"What to do: {_escape(test.advice)}")
    return "\n\n".join(parts)


def _fence(text: str) -> str:
    lines = text[-_EVIDENCE_CHARACTERS:].splitlines()[-_EVIDENCE_LINES:]
    shown = "\n".join(lines)
    if len(shown) < len(text):
        shown = f"… the end of {len(text.splitlines())} lines:\n{shown}"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def _quote(text: str) -> str:
    """Return ``text`` as code within a line."""
    text = " ".join(clean(text).split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _escape(text: str) -> str:
    """Return ``text`` as words of one line: nothing in it is markup."""
    return re.sub(r"([\\`*_\[\]<>|~#&])", r"\\\1", " ".join(clean(text).split()))
