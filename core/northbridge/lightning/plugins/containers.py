"""Containers of tensors: their contents, and copies with other contents, made without constructors.

A list may check its items when it is made, and a frozen dataclass takes no value later. So what is looked at is left as
it is, and what is copied is filled past the methods of its class, as pickle fills it.
"""

from __future__ import annotations

import copyreg
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any

_MAPPINGS: tuple[Any, ...] = (OrderedDict, defaultdict, dict)
_SERIES: tuple[Any, ...] = (list, tuple, deque, set, frozenset)
_BARE = frozenset({dict, list, tuple, set, frozenset, deque})  # without attributes
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_FACTORY: Any = vars(defaultdict)["default_factory"]
_ABSENT = object()
_NEW: Any = copyreg.__newobj__  # type: ignore[attr-defined]  # how pickle makes what has no way of its own
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def values_in(batch: Any) -> Iterator[Any]:
    """Yield what ``batch`` holds, at any depth, itself included. Nothing is made and no method of it is called."""
    seen: dict[int, Any] = {}
    left = [batch]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        held = _held(value)
        if held is None and not isinstance(value, type) and (is_dataclass(value) or isinstance(value, Mapping)):
            held = [*_attributes(value).values()]
        left.extend(each for each in reversed(held or ()) if type(each) not in _ATOMS)  # the first one is next


def replace_in(value: Any, change: Callable[[Any], Any], leaves: tuple[type, ...] = ()) -> Any:
    """Return ``value`` with ``change(each)`` in the place of each thing that it holds, at any depth.

    What holds nothing that changes stays the very object. Of the rest there are copies, of their class and with their
    attributes; what stands in two places still is one object. An object is gone through as pickle does; ``leaves`` are
    not. What pickles itself in a way of its own becomes an object that is pickled as it would be.
    """
    return _Replacement(value, change, leaves).run()


class _Replacement:
    """One run of :func:`replace_in`: first what changes is looked for, and then what holds it is copied."""

    def __init__(self, value: Any, change: Callable[[Any], Any], leaves: tuple[type, ...]) -> None:
        self._value = value
        self._change = change
        self._leaves = leaves
        self._seen: dict[int, Any] = {}  # kept, so that no later object gets the number of one that is gone
        self._states: dict[int, Any] = {}
        self._holders: dict[int, list[int]] = {}
        self._copies: dict[int, Any] = {}

    def run(self) -> Any:
        self._look()
        self._stale = self._holders_of(self._copies)
        return self._copy(self._value)

    def _look(self) -> None:
        left = [self._value]
        while left:
            value = left.pop()
            if id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            changed = self._change(value)
            if changed is not value:
                self._copies[id(value)] = changed
                continue
            for each in () if isinstance(value, self._leaves) else self._parts(value):
                if type(each) not in _ATOMS:
                    self._holders.setdefault(id(each), []).append(id(value))
                    left.append(each)

    def _parts(self, value: Any) -> Iterable[Any]:
        held = _held(value)
        if held is not None:
            return held
        state = _state(value)
        if state is None:
            return ()
        self._states[id(value)] = state
        return (state,)

    def _holders_of(self, numbers: Iterable[int]) -> set[int]:
        found: set[int] = set()
        left = list(numbers)
        while left:
            holders = [each for each in self._holders.get(left.pop(), ()) if each not in found]
            found.update(holders)
            left.extend(holders)
        return found

    def _copy(self, value: Any) -> Any:
        if id(value) in self._copies:
            return self._copies[id(value)]
        if id(value) not in self._stale:
            return value
        kind = _kind(value)
        if kind in (tuple, frozenset):
            return self._copy_fixed(value, kind)
        new = self._copies[id(value)] = _make_empty(value, kind, self._states.get(id(value)))
        if kind is None:
            state = self._copy(self._states[id(value)])
            if isinstance(new, _Pickled):
                new.parts = state
            else:
                _restore(new, state)
            return new
        if kind in _MAPPINGS:
            for key, each in kind.items(value):
                kind.__setitem__(new, self._copy(key), self._copy(each))
        elif kind is deque:
            deque.__init__(new, map(self._copy, deque.__iter__(value)), value.maxlen)
        else:
            kind.__init__(new, map(self._copy, kind.__iter__(value)))
        if kind is defaultdict:
            _FACTORY.__set__(new, self._copy(_FACTORY.__get__(value)))
        self._copy_attributes(value, new)
        return new

    def _copy_fixed(self, value: Any, kind: Any) -> Any:
        parts = [self._copy(each) for each in kind.__iter__(value)]
        if id(value) in self._copies:  # it holds itself, by something that it holds
            return self._copies[id(value)]
        new = self._copies[id(value)] = kind.__new__(type(value), parts)
        self._copy_attributes(value, new)
        return new

    def _copy_attributes(self, value: Any, new: Any) -> None:
        _set_attributes(new, {name: self._copy(each) for name, each in _attributes(value).items()})


def _kind(value: Any) -> Any:
    """Return the container of Python's that ``value`` is, or None."""
    return next((each for each in (*_MAPPINGS, *_SERIES) if issubclass(type(value), each)), None)


def _held(value: Any) -> list[Any] | None:
    """Return what a container of Python's holds, and its attributes; None for anything else."""
    kind = _kind(value)
    if kind is None:
        return None
    held = [each for item in kind.items(value) for each in item] if kind in _MAPPINGS else [*kind.__iter__(value)]
    if type(value) in _BARE:
        return held
    factory = [_FACTORY.__get__(value)] if kind is defaultdict else []
    return [*held, *factory, *_attributes(value).values()]


def _attributes(value: Any) -> dict[str, Any]:
    names = _slots(type(value))
    slots = {name: each for name in names if (each := _attribute(value, name, _ABSENT)) is not _ABSENT}
    return {**_attribute(value, "__dict__", {}), **slots}


def _attribute(value: Any, name: str, default: Any) -> Any:
    try:
        return object.__getattribute__(value, name)  # past what its class says of names that it does not have
    except AttributeError:
        return default


def _slots(cls: type) -> list[str]:
    names: list[str] = copyreg._slotnames(cls)  # type: ignore[attr-defined]  # pickle's own way
    return names


def _set_attributes(new: Any, attributes: dict[str, Any]) -> None:
    slots = _slots(type(new))
    for name, each in attributes.items():
        if name in slots:
            object.__setattr__(new, name, each)
        else:
            new.__dict__[name] = each


def _state(value: Any) -> Any:
    """Return what pickle writes of an object; None for an object that is not a container, or holds nothing."""
    if isinstance(value, partial):
        return value.func, value.args, value.keywords, vars(value)
    if isinstance(value, SimpleNamespace):
        return vars(value)
    if isinstance(value, (type, Enum)) or not type(value).__flags__ & _HEAP_TYPE:
        return None
    try:
        parts = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  # it cannot be pickled, which is said, with the reason, where it is written
        return None
    if isinstance(parts, str):
        return None
    if not _is_filled(value, parts):
        return _Parts(list(each) if isinstance(each, Iterator) else each for each in parts)
    return parts[2]


def _is_filled(value: Any, parts: tuple[Any, ...]) -> bool:
    # It is made by object.__new__ alone, and given its state. Not what has an end: a copy would end it once more.
    cls: Any = type(value)
    is_plain = all(each.__flags__ & _HEAP_TYPE for each in cls.__mro__[:-1])
    return is_plain and parts[:2] == (_NEW, (cls,)) and not hasattr(cls, "__del__")


class _Parts(list[Any]):
    """Reduction of an object that pickles in its own way."""


class _Pickled:
    """An object that is pickled as another would be, whose parts have changed."""

    parts: _Parts

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        make, made_of, *filled = self.parts
        if make is _NEW:  # which pickle allows for an object of the very class alone
            make = made_of[0].__new__
        return make, made_of, *filled[:1], *(each and iter(each) for each in filled[1:3]), *filled[3:]


def _make_empty(value: Any, kind: Any, state: Any) -> Any:
    if issubclass(type(value), partial):
        return partial.__new__(type(value), len)  # which has to be given a function
    if isinstance(state, _Parts):
        return _Pickled()
    maker = kind or (SimpleNamespace if issubclass(type(value), SimpleNamespace) else object)
    return maker.__new__(type(value))


def _restore(new: Any, state: Any) -> None:
    if hasattr(type(new), "__setstate__"):
        new.__setstate__(state)
        return
    own, slots = state if isinstance(state, tuple) else (state, None)
    _set_attributes(new, {**(own or {}), **(slots or {})})
