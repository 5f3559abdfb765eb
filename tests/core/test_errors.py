"""The tree of errors: it is as it is drawn, and each of them survives the way home from a rank."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from northbridge import errors
from northbridge.errors import BackendError, NorthbridgeError, UnsupportedError, VariableError, WeightsDisagreeError

ALL = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, NorthbridgeError)]


def drawn() -> dict[str, tuple[str | None, str]]:
    """Each error in the docstring's drawing, with its parent there and the words beside it."""
    found: dict[str, tuple[str | None, str]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        row = re.match(r"(?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+Error)(?P<words>.*)", line)
        if row is None:
            continue
        depth = len(row["branch"])
        above = [(each, name) for each, name in above if each < depth]
        found[row["name"]] = (above[-1][1] if above else None, row["words"])
        above.append((depth, row["name"]))
    return found


def make(kind: type[NorthbridgeError]) -> NorthbridgeError:
    if issubclass(kind, BackendError):
        return kind("what happened", backend="acme")
    if issubclass(kind, VariableError):
        return kind("what happened", variable="MASTER_PORT")
    if issubclass(kind, UnsupportedError):
        return kind("what happened", capability="bfloat16")
    if issubclass(kind, WeightsDisagreeError):
        return kind("what happened", ranks=(2,))
    return kind("what happened")


def test_the_drawing_holds_every_error_under_its_parent() -> None:
    real = {each.__name__: each.__bases__[0].__name__ for each in ALL if each is not NorthbridgeError}

    assert {name: parent for name, (parent, _) in drawn().items() if parent is not None} == real


@pytest.mark.parametrize("kind", ALL)
def test_the_drawing_says_which_error_of_pythons_it_also_is(kind: type[NorthbridgeError]) -> None:
    python = ("builtins", "_pickle")
    own = [base.__name__ for base in kind.__bases__ if base.__module__ in python and base is not Exception]
    said = re.findall(r"also an? (\w+)", drawn()[kind.__name__][1])

    assert said == own


@pytest.mark.parametrize("kind", ALL)
def test_it_survives_the_way_home_from_a_rank(kind: type[NorthbridgeError]) -> None:
    error = make(kind)

    home = pickle.loads(pickle.dumps(error))

    assert type(home) is kind
    assert str(home) == "what happened"
    assert vars(home) == vars(error)


def test_each_carries_its_subject() -> None:
    assert BackendError("", backend="acme").backend == "acme"
    assert VariableError("", variable="MASTER_PORT").variable == "MASTER_PORT"
    assert UnsupportedError("", capability="bfloat16").capability == "bfloat16"
    assert WeightsDisagreeError("", ranks=(2,)).ranks == (2,)


@pytest.mark.parametrize("kind", ALL)
def test_a_message_does_nothing_on_a_terminal(kind: type[NorthbridgeError]) -> None:
    """Quoted text is cleaned and cut, in the first process and after unpickling."""
    error = make(kind)
    hostile = type(error)(f"\x1b]0;owned\x07found {'x' * 1000!r}", **error.__dict__)

    shown = f"found '{'x' * 199}…'"
    assert str(hostile) == str(pickle.loads(pickle.dumps(hostile))) == shown
