"""One row of the table: what is measured, how, and its goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench.sides import Pair

Unit = Literal["×", "s", "ms", "MB"]
Question = Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """A ratio: of what two sides answer, in turn."""

    pair: Pair
    questions: tuple[Question, Question]
    answer: str = "seconds"
    shown: tuple[float, str] = (1e3, "ms")
    """What an answer is multiplied by to be shown, and its unit then."""

    rounds: int = 3
    """Rounds in each pass, after one more that is not counted: it allocates, and meets cold caches."""

    once: bool = False
    """True if a pair of processes is asked once: a process's peak of memory is that of all that it did."""


@dataclass(frozen=True)
class Timed:
    """What a function returns."""

    measure: Callable[[], float]
    rounds: int = 3
    once: bool = False
    """True if it is called once in all, for it takes a minute."""


@dataclass(frozen=True)
class Row:
    """One row: its name for ``--only``, what it says to people, its unit, and its goal; None where there is none."""

    name: str
    what: str
    unit: Unit
    goal: float | None
    how: Compared | Timed
    missed: str = ""
    """Why the goal is not met, where that is known: such a row ends no run with 1."""
