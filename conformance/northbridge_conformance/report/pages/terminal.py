"""A comparison of reports for the terminal."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from northbridge.diagnostics.table import add_row, make_table
from northbridge.untrusted.terminal import Terminal
from northbridge.untrusted.text import clean
from northbridge_conformance.report.pages.comparison import ABSENT, ComparedTest, Comparison
from northbridge_conformance.report.pages.overview import ORDER, count_verdicts, list_doubts, name_level
from northbridge_conformance.verdict import Verdict

_STYLES = {Verdict.FAIL.value: "red", Verdict.TIMEOUT.value: "red", Verdict.UNDERCLAIM.value: "magenta"}
_SIDE_BY_SIDE = " | "


def show(comparison: Comparison) -> None:
    """Print the level and verdicts of each report, and the tests on which the reports differ, to stdout."""
    console = Terminal(highlight=False)
    _show_levels(console, comparison)
    for label, report in zip(comparison.labels, comparison.reports, strict=True):
        for doubt in list_doubts(report):
            console.print(Text(clean(f"\n{label}: {doubt}"), style="yellow"))
    if comparison.warning:
        console.print(Text(clean(f"\n{comparison.warning}"), style="yellow"))
    console.print()
    if not comparison.differing:
        console.print(f"The same verdicts: {_tests(len(comparison.same))}.")
        return
    console.print(f"{_tests(len(comparison.differing))} differ, {len(comparison.same)} have the same verdict:\n")
    _show_differing(console, comparison)


def _show_differing(console: Terminal, comparison: Comparison) -> None:
    """Print the tests that are in all reports or fail in one; count the others that each report lacks."""
    told: list[ComparedTest] = []
    absent: list[ComparedTest] = []
    for test in comparison.differing:
        (absent if ABSENT in test.words and _STYLES.keys().isdisjoint(test.words) else told).append(test)
    width = max((len(_SIDE_BY_SIDE.join(test.words)) for test in told), default=0)
    if told:
        console.print(Text(clean(_SIDE_BY_SIDE.join(comparison.labels)), style="bold"), soft_wrap=True)
    for test in told:
        style = next((_STYLES[word] for word in test.words if word in _STYLES), "")
        line = f"{_SIDE_BY_SIDE.join(test.words):{width}}  {clean(test.id)}"
        console.print(Text(line, style=style), soft_wrap=True)  # a wrapped id cannot be searched for
    missing = Counter(
        (label, test.level)
        for test in absent
        for label, word in zip(comparison.labels, test.words, strict=True)
        if word == ABSENT
    )
    for (label, level), number in missing.items():
        console.print(Text(clean(f"{label} has no result of {_tests(number)} of {level}")), soft_wrap=True)


def _show_levels(console: Terminal, comparison: Comparison) -> None:
    counts = [count_verdicts(report) for report in comparison.reports]
    verdicts = [verdict for verdict in reversed(ORDER) if any(verdict in each for each in counts)]
    table = make_table("report", "level", *(verdict.value for verdict in verdicts), folding=("report", "level"))
    for label, report, count in zip(comparison.labels, comparison.reports, counts, strict=True):
        add_row(table, "", clean(label), name_level(report), *(str(count.get(verdict, 0)) for verdict in verdicts))
    console.print(table)


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"
