"""Grammar of a plan in ``NORTHBRIDGE_CPU_SIM_FAULTS``: ``kill rank=1 step=5; slow op=all_reduce seconds=1``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pydantic

import northbridge
from northbridge_cpu_sim.errors import FaultError
from northbridge_cpu_sim.faults.fault import Fault
from northbridge_cpu_sim.settings import SimSettings

VARIABLE = SimSettings.variable("faults")

_FAULT = pydantic.TypeAdapter(Fault)


def read_plan(text: str) -> tuple[Fault, ...]:
    """Parse the faults in ``text``, separated by semicolons: each is a kind, and then ``name=value``.

    Raises :class:`northbridge.SettingsError`, which names the wrong fault and the allowed values.
    """
    faults: list[Fault] = []
    for words in _entries(text):
        try:
            faults.append(_fault(words))
        except FaultError as error:
            entry = f"the fault {' '.join(words)!r} of {VARIABLE}"
            raise northbridge.SettingsError(f"{entry} cannot be planned: {error}", variable=VARIABLE) from None
    return tuple(faults)


def _entries(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if not word.strip(";"):
                yield from [words] if words else []
                words = []
            else:
                words.append(word)
    except ValueError:
        raise northbridge.SettingsError(
            f"{VARIABLE}={text!r} has an open quote. Fix: close it", variable=VARIABLE
        ) from None
    yield from [words] if words else []


def _fault(words: list[str]) -> Fault:
    kind, *rest = words
    given: dict[str, str] = {"kind": kind}
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise FaultError(f"{word!r} is not name=value, such as step=5")
        if name in given:
            raise FaultError(f"{name} is given twice. Fix: leave one out")
        given[name] = value
    return _FAULT.validate_python(given)
