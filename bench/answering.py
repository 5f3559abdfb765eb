"""The other end of :func:`bench.child.conversation`: questions come in by lines, answers go out by lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO


def questions(lines: Iterable[str] = sys.stdin) -> Iterator[dict[str, Any]]:
    """Yield what ``lines`` ask, as they come."""
    for line in lines:
        yield json.loads(line)


@dataclass(frozen=True)
class Answers:
    """Where answers go."""

    stream: TextIO

    @classmethod
    def capture_stdout(cls) -> Answers:
        """Keep stdout for answers; whatever anybody else prints goes to stderr from now on."""
        stream = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        return cls(stream)

    def give(self, answer: Mapping[str, Any]) -> None:
        """Answer the question that is open."""
        print(json.dumps(answer), file=self.stream, flush=True)
