"""``python -m bench.plot``: draw the ratios of ``bench/report.json`` into ``docs/measured.svg``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pydantic
from matplotlib import rc_context
from matplotlib.figure import Figure as Picture

from bench.child import ROOT
from bench.report import REPORT

PICTURE = ROOT / "docs" / "measured.svg"

# Grey and blue of a middle lightness: the page behind may be white or nearly black.
_TEXT, _LINES, _WITHIN, _OVER = "#7d8590", "#7d859055", "#3d8bd9", "#e5534b"
_ROW_INCHES = 0.24


class Ratio(pydantic.BaseModel):
    """What the picture shows of one figure of a report."""

    what: str
    unit: str
    value: Annotated[float, pydantic.Field(gt=0)]
    first_quartile: float
    third_quartile: float
    bound: float | None
    verdict: str


class Machine(pydantic.BaseModel):
    """Where a report was written."""

    cpu: str
    cores: int


class Report(pydantic.BaseModel):
    """A report, as far as it is drawn."""

    date: str
    machine: Machine
    versions: Mapping[str, str]
    figures: Mapping[str, Ratio]


class ReportFileError(Exception):
    """There is no report that could be drawn."""


def read(file: Path = REPORT) -> Report:
    """Return the report in ``file``. Raises :class:`ReportFileError`."""
    try:
        return Report.model_validate_json(file.read_text())
    except FileNotFoundError:
        raise ReportFileError(f"there is no {file}: measure first, by make bench") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise ReportFileError(f"{file} is no report of make bench: {where}: {first['msg']}; measure again") from None


def draw(report: Report, file: Path = PICTURE) -> None:
    """Write the picture of ``report``. Raises :class:`ReportFileError`."""
    # Text as text, which the reader's own font shows; and the same picture of the same report, to the byte.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "northbridge", "font.size": 9}):
        picture(report).savefig(file, format="svg", transparent=True, metadata={"Date": None})


def picture(report: Report) -> Picture:
    """Return every ratio of ``report``: the median, the quartiles, and the bound. Raises :class:`ReportFileError`."""
    ratios = [figure for figure in report.figures.values() if figure.unit == "×"]
    if not ratios:
        raise ReportFileError("the report holds no ratio: measure more")
    result = Picture(figsize=(10, 1.1 + _ROW_INCHES * len(ratios)), layout="constrained")
    axes = result.add_subplot()
    for row, each in enumerate(ratios):
        colour = _OVER if each.verdict == "OVER" else _WITHIN
        axes.plot([each.first_quartile, each.third_quartile], [row, row], color=colour, linewidth=4, alpha=0.4)
        axes.plot(each.value, row, "o", color=colour, markersize=5)
        if each.bound is not None:
            axes.plot(each.bound, row, "|", color=_TEXT, markersize=10, markeredgewidth=1.5)
    axes.axvline(1, color=_LINES, linewidth=1)
    axes.set_yticks(range(len(ratios)), [f"{each.what}   {each.value:.2f}" for each in ratios])
    axes.invert_yaxis()
    axes.margins(y=0.6 / len(ratios))
    axes.tick_params(colors=_TEXT, length=0)
    axes.grid(axis="x", color=_LINES, linewidth=0.5)
    axes.spines[:].set_visible(False)
    axes.set_facecolor("none")
    result.suptitle(_title(report), color=_TEXT, fontsize=9)
    result.supxlabel("the dot is the median, the bar its quartiles, the stroke the bound", color=_TEXT, fontsize=9)
    return result


def _title(report: Report) -> str:
    machine = report.machine
    return f"{report.date[:10]}, torch {report.versions.get('torch', '?')}, {machine.cores} cores of {machine.cpu}"


def main() -> int:
    """Run the command; return its exit code."""
    try:
        draw(read())
    except ReportFileError as error:
        print(f"python -m bench.plot: {error}", file=sys.stderr)
        return 2
    print(f"drew {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
