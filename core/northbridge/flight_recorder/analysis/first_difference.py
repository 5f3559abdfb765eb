"""Search for the call from which on a rank is out of step, because it skipped or added a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from northbridge.flight_recorder.analysis.calls import Call

_COMPARED = 50


def say_parting(made: Mapping[int, Sequence[Call]], blamed: Sequence[int], waiting: Sequence[int]) -> str:
    """Return the call that a blamed rank left out or a waiting rank added; empty if neither is found."""
    if not waiting:
        return ""
    other = waiting[0]
    for rank in blamed:
        if call := _find_left_out(made.get(rank, ()), made.get(other, ())):
            few, many = rank, other
        elif call := _find_left_out(made.get(other, ()), made.get(rank, ())):
            few, many = other, rank
        else:
            continue
        # One rank out of step is likelier than all the others.
        odd = few if (few == rank) == (len(blamed) <= len(waiting)) else many
        what = f"#{call.number} {call.operation}{call.where}"
        if odd == few:
            return f"; rank {odd} has left out {what}: what it calls #{call.number} is #{call.number + 1} elsewhere"
        return f"; rank {odd} alone has made {what}: what others call #{call.number} is its #{call.number + 1}"
    return ""


def _find_left_out(fewer: Sequence[Call], more: Sequence[Call]) -> Call | None:
    """Return the call of ``more`` from which on ``fewer`` has the same calls, one number earlier."""
    own, theirs = ({call.number: call for call in calls} for calls in (fewer, more))
    number = next((each for each in sorted(own.keys() & theirs.keys()) if _what(own[each]) != _what(theirs[each])), 0)
    later = [each for each in own if number <= each < number + _COMPARED and each + 1 in theirs]
    if not number or not later or any(_what(own[each]) != _what(theirs[each + 1]) for each in later):
        return None
    return theirs[number]


def _what(call: Call) -> object:
    return call.operation, call.place, call.elements
