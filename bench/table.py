"""The figures as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from bench.figure import Figure
from bench.row import Unit

_STYLES = {"MISSED": "bold red", "missed, known": "yellow", "met": "green", "no goal": "dim"}


def table(figures: Sequence[Figure], *, quick: bool) -> Table:
    """Return one row a figure; the interval is that of the median, with a confidence of 95 %."""
    title = "Northbridge, measured" + (
        " (quick: few rounds, for a smoke run; compare nothing with this)" if quick else ""
    )
    result = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("what", "median", "95 % interval", "rounds", "goal", "verdict"):
        aside = column in ("rounds", "goal")
        result.add_column(column, justify="right" if aside else "left", no_wrap=column != "what", overflow="fold")
    for figure in figures:
        lower, upper = figure.interval
        unit, goal = figure.row.unit, figure.row.goal
        parts = ", ".join(f"{name} {part}" for name, part in figure.parts.items())
        result.add_row(
            Text.assemble(figure.row.what, "\n" if parts else "", (parts, "dim")),
            amount(figure.value, unit),
            f"{amount(lower, unit)} – {amount(upper, unit)}",
            str(len(figure.measurement.values)),
            "" if goal is None else f"≤ {amount(goal, unit)}",
            Text(figure.verdict, style=_STYLES[figure.verdict]),
        )
    return result


def amount(value: float, unit: Unit) -> str:
    """Return a figure with its unit; a ratio has three decimals, for its goal has two."""
    if unit == "×":
        return f"{value:.3f} ×"
    return f"{value:.3g} {unit}"
