"""``python -m bench.page``: write the pages of ``bench/report.json``, and draw its picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.docs.page import write_parts

from bench.child import ROOT
from bench.plot import PICTURE, draw
from bench.recorded import Recorded, Report, ReportFileError, read
from bench.table import amount

PAGE = ROOT / "bench" / "figures.md"
"""Every figure."""

SHORT = ROOT / "docs" / "measured.md"
"""The page of the site, whose table has some of them."""

SHOWN = [
    "op-add-4",
    "step-mlp",
    "step-convnet",
    "step-transformer",
    "step-ddp",
    "step-fsdp2",
    "all-reduce-1mib",
    "step-hpu",
    "step-sdaa",
    "trainer",
    "memory",
    "recompilation-watch",
    "strategy",
    "autoload",
    "list",
    "ranks-memory",
    "compile",
]
"""The figures that the page of the site shows."""

BEFORE = ROOT / "bench" / "before.json"
"""The report of an earlier commit, whose rows are shown beside those of the same machine."""

_HEAD = """# Every figure of `make bench`

Written by `make bench`. Figures are medians of interleaved runs, so that background load hits both sides, which have as
many threads. The 95 % interval of the median is found by the bootstrap. A goal is met if the lower end of the interval
is at or below it. A figure without a goal is for information. [What it costs](../docs/measured.md) has a choice.
"""

_COLUMNS = ("median", "95 % interval", "quartiles", "goal", "medians of the sides")


def text(report: Report, before: Report | None = None) -> str:
    """Return the page of ``report``: when and where, the picture, and a row for each figure.

    ``before`` has a column if its machine is the same.
    """
    if before is not None and before.machine != report.machine:
        before = None
    earlier = f" Before: commit {before.commit[:8]}, measured on {before.date[:10]}." if before else ""
    heads = ("what", *(("before, and its quartiles",) if before else ()), *_COLUMNS)
    return "\n".join(
        [
            _HEAD,
            f"Measured on {report.surroundings}.{earlier}",
            "",
            f"![Every ratio, with its interval, quartiles and goal](../docs/{PICTURE.name})",
            "",
            f"| {' | '.join(heads)} |",
            "|---" * len(heads) + "|",
            *(
                _row(each, [_before(before.figures.get(name))] if before else [])
                for name, each in report.figures.items()
            ),
            "",
        ]
    )


def table(report: Report) -> str:
    """Return when and where it was measured, and a row for each figure of ``SHOWN`` that ``report`` has."""
    shown = [report.figures[name] for name in SHOWN if name in report.figures]
    rows = [
        f"| {each.what} | {amount(each.value, each.unit)} | {amount(each.lower, each.unit)} –"
        f" {amount(each.upper, each.unit)} | {_goal(each)} |"
        for each in shown
    ]
    head = ["| what | median | 95 % interval | goal |", "|---|---|---|---|"]
    return "\n".join([f"Measured on {report.surroundings}.", "", *head, *rows])


def _goal(each: Recorded) -> str:
    goal = "" if each.goal is None else f"≤ {amount(each.goal, each.unit)}"
    return f"{goal} (missed)" if each.verdict.lower().startswith("missed") else goal


def _row(each: Recorded, earlier: Sequence[str]) -> str:
    goal = "" if each.goal is None else f"≤ {amount(each.goal, each.unit)}"
    if each.verdict.lower().startswith("missed"):
        goal = f"**missed: {goal}** {each.missed}".strip()
    sides = ", ".join(f"{name} {part}" for name, part in each.parts.items())
    interval = f"{amount(each.lower, each.unit)} – {amount(each.upper, each.unit)}"
    cells = (each.what, *earlier, amount(each.value, each.unit), interval, _quartiles(each), goal, sides)
    return f"| {' | '.join(cells)} |"


def _before(each: Recorded | None) -> str:
    return "" if each is None else f"{amount(each.value, each.unit)}, {_quartiles(each)}"


def _quartiles(each: Recorded) -> str:
    return f"{amount(each.first_quartile, each.unit)} – {amount(each.third_quartile, each.unit)}"


def show(report: Report) -> None:
    """Write the page and its picture. Raises :class:`ReportFileError` where there is nothing to draw."""
    draw(report)
    PAGE.write_text(text(report, read(BEFORE) if BEFORE.exists() else None))
    write_parts(SHORT, table(report))


def main() -> int:
    """Run the command; return its exit code."""
    try:
        show(read())
    except ReportFileError as error:
        print(f"python -m bench.page: {error}", file=sys.stderr)
        return 2
    print(f"wrote {PAGE} and drew {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
