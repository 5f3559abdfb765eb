"""The picture of a report: ``docs/measured.svg``."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from matplotlib import rc_context
from matplotlib.figure import Figure as Picture

from bench.child import ROOT
from bench.recorded import Report, ReportFileError

PICTURE = ROOT / "docs" / "measured.svg"

# White behind everything: no grey has a contrast of 4.5:1 on both schemes of the site.
_GROUND, _TEXT, _LINES, _MET, _MISSED = "#ffffff", "#24292f", "#7d859055", "#3d8bd9", "#e5534b"
_WIDTH_INCHES, _ROW_INCHES = 4.0, 0.48  # no wider than a phone, on which its text has the size of small print
_LABEL_CHARACTERS = 56


def draw(report: Report, file: Path = PICTURE) -> None:
    """Write the picture of ``report``. Raises :class:`ReportFileError`."""
    # Text as text, which the reader's own font shows; and the same picture of the same report, to the byte.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "northbridge", "font.size": 9}):
        picture(report).savefig(file, format="svg", facecolor=_GROUND, metadata={"Date": None})


def picture(report: Report) -> Picture:
    """Return every ratio of ``report``, with its interval, quartiles and goal. Raises :class:`ReportFileError`."""
    ratios = [figure for figure in report.figures.values() if figure.unit == "×"]
    if not ratios:
        raise ReportFileError("the report holds no ratio: measure more")
    result = Picture(figsize=(_WIDTH_INCHES, 1.1 + _ROW_INCHES * len(ratios)), layout="constrained")
    axes = result.add_subplot()
    for row, each in enumerate(ratios):
        colour = _MISSED if each.verdict.lower().startswith("missed") else _MET
        axes.plot([each.first_quartile, each.third_quartile], [row, row], color=colour, linewidth=4, alpha=0.4)
        axes.plot([each.lower, each.upper], [row, row], color=colour, linewidth=1.5)
        axes.plot(each.value, row, "o", color=colour, markersize=5)
        if each.goal is not None:
            axes.plot(each.goal, row, "|", color=_TEXT, markersize=10, markeredgewidth=1.5)
        label = fill(f"{each.what}   {each.value:.2f}", _LABEL_CHARACTERS, drop_whitespace=False)
        place = axes.get_yaxis_transform()
        axes.annotate(
            label, (0, row), xycoords=place, xytext=(0, 6), textcoords="offset points", va="bottom", color=_TEXT
        )
    axes.axvline(1, color=_LINES, linewidth=1)
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.margins(y=0.6 / len(ratios))
    axes.tick_params(colors=_TEXT, length=0)
    axes.grid(axis="x", color=_LINES, linewidth=0.5)
    axes.spines[:].set_visible(False)
    axes.set_facecolor("none")
    result.suptitle(report.surroundings, color=_TEXT, fontsize=9)
    result.supxlabel("dot: median, line: 95 % interval, bar: quartiles, stroke: goal", color=_TEXT, fontsize=9)
    return result
