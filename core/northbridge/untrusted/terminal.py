"""The terminal: all that is printed on it is cleaned here, because much of it came from outside."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from northbridge.untrusted.text import clean


class Terminal(Console):
    """A console of rich's on which no text moves the cursor, sets the title, or turns its neighbours round."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of ``renderable``, their texts cleaned; rich's own colours are no part of the texts."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else clean(text), style, control)
