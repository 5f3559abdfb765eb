"""Failures in plain words, made from what pytest says of them."""

from __future__ import annotations

import re

from northbridge_conformance.verdict import MOST_EVIDENCE

_MOST_LINES = 8
_MOST_CHARACTERS = 240

_MARK = re.compile(r"E(?: +|$)")
_DETAIL = re.compile(r"[-+?]( |$)|Use -v|At index|Full diff|Left contains|Right contains|Omitting|Differing items")
_FALSE = re.compile(r"^ +(assert .+(?:\n .+)*)\nE +assert False$", re.MULTILINE)
_EQUAL = re.compile(r"assert (.+) == (.+)")
_CLASS = re.compile(r"(?:\w+\.)*(\w+): ")


def say_plainly(evidence: str) -> str:
    """Return the failure in the evidence of a test: in words, without pytest's frames; at most eight lines.

    Of evidence without pytest's marks, such as the output of a process that died, return the first line and the last.
    """
    evidence = evidence[-MOST_EVIDENCE:]  # a report from elsewhere may have more, for which the patterns take long
    evidence = _FALSE.sub(lambda found: f"E   {' '.join(found[1].split())}", evidence)  # the line says more
    lines = [line for line in evidence.splitlines() if line.strip()]
    marked = [_MARK.sub("", line).strip() for line in lines if _MARK.match(line)]
    said = [_reword(line) for line in marked if line and not _DETAIL.match(line)][:_MOST_LINES]
    if not said:
        said = lines if len(lines) <= _MOST_LINES else [lines[0], "…", *lines[2 - _MOST_LINES :]]
    return "\n".join(map(_cut, said))


def _reword(line: str) -> str:
    named = _CLASS.match(line)
    if named is not None:
        line = line[named.end() :] if named[1] == "AssertionError" else f"{named[1]}: {line[named.end() :]}"
    if equal := _EQUAL.fullmatch(line):
        return f"found {equal[1]}, expected {equal[2]}"
    return re.sub(r"^assert ", "this does not hold: ", line)


def _cut(line: str) -> str:
    return f"{line[:_MOST_CHARACTERS]}…" if len(line) > _MOST_CHARACTERS else line
