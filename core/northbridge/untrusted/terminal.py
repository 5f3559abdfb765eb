"""Terminal output, cleaned because much of it comes from outside."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from northbridge.untrusted.text import clean


class Terminal(Console):
    """A console of rich's on which text cannot move the cursor, set the title, or reverse neighbouring text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of ``renderable`` with cleaned texts; rich's own colours are not part of the texts."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else clean(text), style, control)
