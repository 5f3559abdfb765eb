"""The level of a report as a picture for a README, which loads nothing from the network."""

from __future__ import annotations

from html import escape

from northbridge.untrusted.text import clean
from northbridge_conformance.report.overview import is_part, name_level
from northbridge_conformance.report.report import Report

_LEFT = "Northbridge"
_HEIGHT = 20
_PADDING = 8
_WIDTH_OF_A_CHARACTER = 6.6

_GRANTED, _SIMULATED, _NONE = "#14612f", "#2f5d8a", "#8a1b12"


def render_badge(report: Report) -> str:
    """Return an SVG with the level, such as "C3 (simulated)"; a simulated level has another colour than a real one."""
    said = clean(name_level(report))
    colour = _NONE if report.level is None or is_part(report) else _SIMULATED if report.backend.simulated else _GRANTED
    left, right = (round(len(text) * _WIDTH_OF_A_CHARACTER) + 2 * _PADDING for text in (_LEFT, said))
    texts = "".join(
        f'<text x="{x + _PADDING}" y="14" textLength="{width - 2 * _PADDING}">{escape(text)}</text>'
        for x, width, text in ((0, left, _LEFT), (left, right, said))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img">'
        f"<title>{_LEFT} conformance: {escape(said)}</title>"
        f'<rect width="{left + right}" height="{_HEIGHT}" rx="3" fill="#3b434b"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v{_HEIGHT - 6}a3 3 0 0 1-3 3h-{right - 3}z" fill="{colour}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )
