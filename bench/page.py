"""``python -m bench.page``: write ``docs/measured.md`` of ``bench/report.json``, and draw its picture."""

from __future__ import annotations

import sys

from bench.child import ROOT
from bench.plot import PICTURE, draw
from bench.recorded import Recorded, Report, ReportFileError, read
from bench.table import amount

PAGE = ROOT / "docs" / "measured.md"

_HEAD = """# What it costs

Written by `make bench`. Figures are medians of interleaved runs, so that background load hits both sides, which have as
many threads. The 95 % interval of the median is found by the bootstrap. A goal is met if the lower end of the interval
is at or below it. A figure without a goal is for information.
"""


def text(report: Report) -> str:
    """Return the page of ``report``: when and where, the picture, and a row for each figure."""
    rows = [_row(each) for each in report.figures.values()]
    return "\n".join(
        [
            _HEAD,
            f"Measured on {report.surroundings}.",
            "",
            f"![Every ratio, with its interval, quartiles and goal; the table has the same figures]({PICTURE.name})",
            "",
            "| what | median | 95 % interval | quartiles | goal | medians of the sides |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(each: Recorded) -> str:
    lower, upper, first, third = (
        amount(end, each.unit) for end in (each.lower, each.upper, each.first_quartile, each.third_quartile)
    )
    goal = "" if each.goal is None else f"≤ {amount(each.goal, each.unit)}"
    if each.verdict.lower().startswith("missed"):
        goal = f"**missed: {goal}** {each.missed}".strip()
    sides = ", ".join(f"{name} {part}" for name, part in each.parts.items())
    cells = (each.what, amount(each.value, each.unit), f"{lower} – {upper}", f"{first} – {third}", goal, sides)
    return f"| {' | '.join(cells)} |"


def show(report: Report) -> None:
    """Write the page and its picture. Raises :class:`ReportFileError` where there is nothing to draw."""
    draw(report)
    PAGE.write_text(text(report))


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
