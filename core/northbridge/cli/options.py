"""Options, exit codes and progress output that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

EXIT_CODES = """\b
Exit codes:
  0  all well; missing hardware or software and disabled backends do not count as errors
  1  torch or a backend is broken or timed out, or an installed namespace of Lightning cannot be served
  2  wrong usage: an option, the name of a backend, or the value of a NORTHBRIDGE_ variable
"""

LoadTimeout = Annotated[
    float, typer.Option(min=1, max=86400, metavar="SECONDS", help="The time limit for loading one backend.")
]


@contextmanager
def spinner(*, quiet: bool) -> Iterator[Callable[[str, str], None]]:
    """Show the children's stages on a terminal; elsewhere print once that it takes time. stdout stays clean."""
    from rich.text import Text

    from northbridge.untrusted.terminal import Terminal

    console = Terminal(stderr=True)
    if not (quiet or console.is_terminal):
        print("northbridge: asking in child processes, which may take minutes", file=sys.stderr)
    doing: dict[str, str] = {}
    with console.status("starting") as status:

        def tell(who: str, what: str) -> None:
            doing[who] = what
            status.update(Text("; ".join(f"{name}: {each}" for name, each in doing.items() if each)))

        yield tell
