"""Containers of tensors: their contents, and copies with other contents, made without constructors.

A list's class may check its items when it is made, and a frozen dataclass rejects later values. So containers are read
without changing them. Copies are filled without the methods of their classes, as pickle fills them.
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
_NEW: Any = copyreg.__newobj__  # type: ignore[attr-defined]  # how pickle makes objects without a reduction of their own
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def values_in(batch: Any) -> Iterator[Any]:
    """Yield every value in ``batch``, at any depth, itself included. Makes no object and calls no method of it."""
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
    """Replace each value in ``value``, at any depth, by ``change(each)``.

    An object without a changed value stays the same object. The others are copied, with class and attributes; an object
    in two places remains one object. Objects are walked as pickle walks them, except ``leaves``. An object with its own
    reduction becomes an object that pickles as the original would.
    """
    return _Replacement(value, change, leaves).run()


class _Replacement:
    """One run of :func:`replace_in`: first find the changed values, then copy the objects that hold them."""

    def __init__(self, value: Any, change: Callable[[Any], Any], leaves: tuple[type, ...]) -> None:
        self._value = value
        self._change = change
        self._leaves = leaves
        self._seen: dict[int, Any] = {}  # kept, so that no later object gets the id of a freed one
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
        if id(value) in self._copies:  # it contains itself, through one of its parts
            return self._copies[id(value)]
        new = self._copies[id(value)] = kind.__new__(type(value), parts)
        self._copy_attributes(value, new)
        return new

    def _copy_attributes(self, value: Any, new: Any) -> None:
        _set_attributes(new, {name: self._copy(each) for name, each in _attributes(value).items()})


def _kind(value: Any) -> Any:
    """Return Python's container class of ``value``, or None."""
    return next((each for each in (*_MAPPINGS, *_SERIES) if issubclass(type(value), each)), None)


def _held(value: Any) -> list[Any] | None:
    """Return the items and the attributes of a Python container; None for any other value."""
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
        return object.__getattribute__(value, name)  # bypasses __getattr__ of its class
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
    """Return the state that pickle writes of an object; None for an object without parts, or that cannot be pickled."""
    if isinstance(value, partial):
        return value.func, value.args, value.keywords, vars(value)
    if isinstance(value, SimpleNamespace):
        return vars(value)
    if isinstance(value, (type, Enum)) or not type(value).__flags__ & _HEAP_TYPE:
        return None
    try:
        parts = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  # it cannot be pickled: saving raises the error with the reason
        return None
    if isinstance(parts, str):
        return None
    if not _is_filled(value, parts):
        return _Parts(list(each) if isinstance(each, Iterator) else each for each in parts)
    return parts[2]


def _is_filled(value: Any, parts: tuple[Any, ...]) -> bool:
    # Made by object.__new__ only, and given its state. Not for a class with __del__: a copy would run it again.
    cls: Any = type(value)
    is_plain = all(each.__flags__ & _HEAP_TYPE for each in cls.__mro__[:-1])
    return is_plain and parts[:2] == (_NEW, (cls,)) and not hasattr(cls, "__del__")


class _Parts(list[Any]):
    """Reduction of an object that pickles in its own way."""


class _Pickled:
    """An object that pickles as another object would, with changed parts."""

    parts: _Parts

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        make, made_of, *filled = self.parts
        if make is _NEW:  # pickle allows it only for an object of exactly that class
            make = made_of[0].__new__
        return make, made_of, *filled[:1], *(each and iter(each) for each in filled[1:3]), *filled[3:]


def _make_empty(value: Any, kind: Any, state: Any) -> Any:
    if issubclass(type(value), partial):
        return partial.__new__(type(value), len)  # partial needs a function
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
