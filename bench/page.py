"""``python -m bench.page``: write ``docs/measured.md`` of ``bench/report.json``, and draw its picture."""

from __future__ import annotations

import sys

from bench.child import ROOT
from bench.plot import PICTURE, draw
from bench.recorded import Recorded, Report, ReportFileError, read
from bench.table import amount

PAGE = ROOT / "docs" / "measured.md"

_HEAD = """# What it costs

Written by `make bench`. Figures are medians of interleaved runs, so that background load hits both sides. A release
has to keep every bound; a figure without a bound is for information.
"""


def text(report: Report) -> str:
    """Return the page of ``report``: when and where, the picture, and a row for each figure."""
    rows = [_row(each) for each in report.figures.values()]
    return "\n".join(
        [
            _HEAD,
            f"Measured on {report.surroundings}.",
            "",
            f"![Every ratio, with its quartiles and its bound; the table has the same figures]({PICTURE.name})",
            "",
            "| what | median | quartiles | bound | medians of the sides |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(each: Recorded) -> str:
    first, third = amount(each.first_quartile, each.unit), amount(each.third_quartile, each.unit)
    bound = "" if each.bound is None else f"≤ {amount(each.bound, each.unit)}"
    over = f" **over {bound}**" if each.verdict == "OVER" else bound
    sides = ", ".join(f"{name} {part}" for name, part in each.parts.items())
    return f"| {each.what} | {amount(each.value, each.unit)} | {first} – {third} | {over.strip()} | {sides} |"


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
