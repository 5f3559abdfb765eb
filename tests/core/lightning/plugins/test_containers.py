from __future__ import annotations

import argparse
import enum
import functools
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

from northbridge.lightning.plugins.containers import replace_in, values_in

OLD, NEW = object(), object()


class Refusal(Exception):
    """A constructor ran that had run when its object was made."""


class Checked:
    """A class whose constructor raises after :func:`forbid`."""

    allowed = True


def check() -> None:
    if not Checked.allowed:
        raise Refusal


class Items(list[Any]):
    def __init__(self, items: Any) -> None:
        check()
        super().__init__(items)
        self.first = self[0]

    def append(self, _item: object) -> None:
        raise Refusal

    extend = append


class Settings(dict[str, Any]):
    def __init__(self, **values: Any) -> None:
        check()
        super().__init__(**values)

    def __setitem__(self, _key: str, _value: object) -> None:
        raise Refusal

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


class Point(NamedTuple("Point", [("x", Any), ("y", Any)])):
    def __new__(cls, x: Any, y: Any) -> Point:
        check()
        return super().__new__(cls, x, y)


@dataclass(frozen=True)
class Frozen:
    value: Any
    rate: float = 0.1

    def __post_init__(self) -> None:
        check()


@dataclass(frozen=True, slots=True)
class Slotted:
    value: Any

    def __post_init__(self) -> None:
        check()


class Plain:
    def __init__(self, value: Any) -> None:
        check()
        self.value = value


class Noted(Plain):
    def __getstate__(self) -> Any:
        return {"value": self.value, "noted": True}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


class Named:
    __slots__ = ("missing", "value")

    def __init__(self, value: Any) -> None:
        check()
        self.value = value


class Handle:
    """An object that a copy would close twice."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __del__(self) -> None:
        """Close it."""


class Colour(enum.Enum):
    RED = OLD


def swap(value: Any) -> Any:
    return NEW if value is OLD else value


@pytest.fixture
def no_constructor(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(Checked, "allowed", False)


# --- Copies


FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a dict": (lambda it: {"key": it}, lambda made: made["key"]),
    "a key": (lambda it: {it: 3}, lambda made: next(iter(made))),
    "a list": (lambda it: [1, it], lambda made: made[1]),
    "a tuple": (lambda it: (it, 1), lambda made: made[0]),
    "a frozenset": (lambda it: frozenset({it}), lambda made: next(iter(made))),
    "a list of a user's": (lambda it: Items([it]), lambda made: made[0]),
    "an attribute of a list": (lambda it: Items([it]), lambda made: made.first),
    "a dict of a user's": (lambda it: Settings(key=it), lambda made: made["key"]),
    "a named tuple": (lambda it: Point(1, it), lambda made: made.y),
    "a defaultdict": (lambda it: defaultdict(list, key=it), lambda made: made["key"]),
    "a counter": (lambda it: Counter({it: 2}), lambda made: next(iter(made))),
    "a deque": (lambda it: deque([0, it], maxlen=2), lambda made: made[1]),
    "a frozen dataclass": (Frozen, lambda made: made.value),
    "a frozen dataclass with slots": (Slotted, lambda made: made.value),
    "an object": (Plain, lambda made: made.value),
    "an object with slots": (Named, lambda made: made.value),
    "an object with a state of its own": (Noted, lambda made: made.value),
    "a parser's namespace": (lambda it: argparse.Namespace(key=it), lambda made: made.key),
    "an attribute of an ordered dict": (lambda it: attribute_of(OrderedDict(key=1), it), lambda made: made.kept),
    "a partial": (lambda it: functools.partial(dict, key=it), lambda made: made.keywords["key"]),
    "a module": (lambda it: attribute_of(torch.nn.Linear(1, 1), it), lambda made: made.kept),
}


def attribute_of(module: Any, value: Any) -> Any:
    module.kept = value
    return module


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_has_its_class_and_no_constructor_runs(form: str, no_constructor: Callable[[], None]) -> None:
    make, read = FORMS[form]
    value = {"nested": [make(OLD)]}
    no_constructor()

    made = replace_in(value, swap)["nested"][0]

    assert read(made) is NEW
    assert type(made) is type(value["nested"][0])
    assert read(value["nested"][0]) is OLD


@pytest.mark.parametrize("form", FORMS)
def test_what_does_not_change_is_the_very_object(form: str) -> None:
    value = {"nested": [FORMS[form][0](object())]}

    assert replace_in(value, swap) is value


def test_a_copy_keeps_what_its_kind_has_beside() -> None:
    made = replace_in([deque([OLD], maxlen=3), defaultdict(list, a=OLD), Frozen(OLD, 0.5)], swap)

    assert made[0].maxlen == 3
    assert made[1]["new"] == []
    assert made[2] == Frozen(NEW, 0.5)


def test_an_ordered_dict_keeps_its_order() -> None:
    value = OrderedDict(a=OLD, b=1, c=2)
    value.move_to_end("a")

    assert list(replace_in(value, swap).items()) == [("b", 1), ("c", 2), ("a", NEW)]


def test_what_stands_in_two_places_is_one_object() -> None:
    shared, beside = [OLD], [1]

    made = replace_in({"first": shared, "second": (shared, beside), "third": beside}, swap)

    assert made["first"] is made["second"][0]
    assert made["second"][1] is made["third"] is beside


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: (it,), Plain], ids=["itself", "a tuple", "an object"])
def test_what_holds_itself_still_does(wrap: Callable[[Any], Any]) -> None:
    loop: list[Any] = [OLD]
    loop.append(wrap(loop))
    assert [each for each in values_in(loop) if each is OLD] == [OLD]

    first, back = replace_in(loop, swap)

    assert first is NEW
    back = back.value if isinstance(back, Plain) else back[0] if isinstance(back, tuple) else back
    assert back[0] is NEW
    assert type(back[1]) is type(wrap(loop))


class Made:
    """An object with its own reduction, which is unpickled by its constructor."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.notes: list[Any] = []

    def __reduce__(self) -> Any:
        return Made, (self.value,), {"notes": self.notes}


@pytest.mark.parametrize("kind", [Made, Handle])
def test_what_makes_itself_is_written_as_it_would_be(kind: Any) -> None:
    value = kind([Plain])
    value.notes = [value, 3]

    first, second = replace_in([value, value], lambda each: Named if each is Plain else each)
    opened, beside = pickle.loads(pickle.dumps([first, second], protocol=2))

    assert type(opened) is kind
    assert opened.value == [Named]
    assert opened is beside is opened.notes[0]
    assert value.value == [Plain]


@pytest.mark.parametrize("value", [Colour.RED, Plain, lambda: OLD], ids=["enum", "class", "def"])
def test_what_pickle_only_names_is_left_alone(value: Any) -> None:
    assert replace_in([value], swap)[0] is value


def test_an_object_that_cannot_be_pickled_is_left_alone() -> None:
    class Closed(Plain):
        def __getstate__(self) -> Any:
            raise pickle.PicklingError("it is closed")

    value = Closed(OLD)

    assert replace_in([value], swap)[0] is value


def test_a_deep_value_is_looked_through() -> None:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]

    assert replace_in(value, swap) is value


# --- Looking


@pytest.mark.parametrize("form", ["a list of a user's", "a dict of a user's", "a named tuple", "a frozen dataclass"])
def test_looking_finds_what_is_held_and_makes_nothing(form: str, no_constructor: Callable[[], None]) -> None:
    value = (FORMS[form][0](OLD),)
    no_constructor()

    assert sum(each is OLD for each in values_in(value)) == 1


def test_looking_goes_from_the_first_to_the_last() -> None:
    found = list(values_in(({"a": [OLD], "b": NEW}, OLD, Plain)))

    assert [each for each in found if each in (OLD, NEW, Plain)] == [OLD, NEW, Plain]
