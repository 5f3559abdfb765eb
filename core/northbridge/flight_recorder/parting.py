"""From which call on a rank is out of step: it left a call out, or made one more, long before somebody waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from northbridge.flight_recorder.calls import Call

_COMPARED = 50


def say_parting(made: Mapping[int, Sequence[Call]], blamed: Sequence[int], waiting: Sequence[int]) -> str:
    """Return where the calls of a blamed rank begin to be a waiting rank's, one later or earlier; else nothing."""
    for rank in blamed:
        mine, theirs = made.get(rank, ()), made.get(waiting[0], ()) if waiting else ()
        # The side that is one ahead may be the one that has made one too many.
        said = _say(mine, theirs, f"rank {rank}") or _say(theirs, mine, f"rank {waiting[0]}" if waiting else "")
        if said:
            return f"; {said}"
    return ""


def _say(mine: Sequence[Call], theirs: Sequence[Call], who: str) -> str:
    """Return what ``who`` has left out: from one number on, ``mine`` are ``theirs`` one number later."""
    own = {call.number: call for call in mine}
    other = {call.number: call for call in theirs}
    both = sorted(own.keys() & other.keys())
    number = next((each for each in both if _what(own[each]) != _what(other[each])), None)
    if number is None:
        return ""
    shifted = [each for each in own if number <= each < number + _COMPARED and each + 1 in other]
    if not shifted or any(_what(own[each]) != _what(other[each + 1]) for each in shifted):
        return ""
    left_out = other[number]
    return (
        f"{who} has left out #{number} {left_out.operation}{left_out.where}: what it calls #{number} is #{number + 1}"
        " elsewhere"
    )


def _what(call: Call) -> object:
    return call.operation, call.place, call.elements
