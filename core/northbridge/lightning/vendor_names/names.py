"""Vendors' class names, such as ``AcmeAccelerator``, for classes that Northbridge has once for all chips.

A backend derives its names from the classes here and names its backend, as ``docs/backend-interfaces.md`` shows. An
object of a name belongs to no namespace of Lightning. It keeps its arguments until a Trainer or a Fabric gets it.
Then it becomes that namespace's own accelerator, strategy or plugin, in place: a reference to it stays valid.
From then on ``isinstance(trainer.strategy, AcmeDDPStrategy)`` is true, even if the user wrote ``strategy="ddp"``.

Users may derive from a name: an object of their class becomes one of a class that is theirs first, then the
namespace's. Before a Trainer or a Fabric gets an object, its draft answers for it: the object that it would become.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
import warnings
from abc import ABC, ABCMeta
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from typing import Any, ClassVar, NoReturn
from weakref import WeakKeyDictionary

import torch

from northbridge.discovery.current import loaded
from northbridge.discovery.declared import get
from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.lightning.accelerators.accelerator import AcceleratorQuestions
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.strategies.user_classes import derive


class _VendorNameType(ABCMeta):
    """Metaclass of vendors' names: the object that a name became is still an instance of the name's class.

    A vendor's class cannot be a real base of that object's class. Scripts import it after the Trainer was made,
    Lightning itself makes precisions and profilers, and a pickled strategy has to find its class by name.
    """

    stands_for: Callable[[type], bool]

    def mro(cls) -> list[type]:
        # A user's class is joined with one of a namespace, whose methods come before those of other namespaces.
        found, last = super().mro(), cls.__bases__[-1]
        if last is object or isinstance(last, _VendorNameType):
            return found
        names = [each for each in found if isinstance(each, _VendorNameType)]
        joined = [*names, *last.__mro__[:-1]]
        return [*joined, *(each for each in found if each not in joined)]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if "arguments" not in vars(made):
            raise ArgumentsError(f"{cls.__name__}.__init__() does not call super().__init__(). Fix: call it first")
        return made

    def __subclasscheck__(cls, subclass: type) -> bool:
        # Not ABCMeta's, which checks derived names too: to the core, each strategy of ours would be a vendor's name.
        return type.__subclasscheck__(cls, subclass) or any(cls.stands_for(base) for base in subclass.__mro__)


class VendorName(ABC, metaclass=_VendorNameType):
    """Base of all names. An ABC, like Lightning's classes, so that Python lets an object become one of those."""

    backend_name: ClassVar[str] = ""
    """The backend that the name belongs to; empty in the core's own classes."""

    kind: ClassVar[str] = ""
    """Name of the class that it stands for, in each of :attr:`homes`."""

    homes: ClassVar[frozenset[str]] = frozenset(namespace.home for namespace in NAMESPACES.values())
    """The modules of the classes that the name stands for."""

    positional: ClassVar[tuple[str, ...]] = ()
    """The positional arguments, in order."""

    without_meaning: ClassVar[Mapping[str, str]] = {}
    """Arguments that are accepted and ignored, each with the end of the warning about it."""

    def __init_subclass__(cls, *, backend: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if backend:
            cls.backend_name = backend

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.arguments: dict[str, Any] = self._bind(args, kwargs)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, without those that have no meaning, each of which causes one warning.

        Raises :class:`ArgumentsError` for an unknown argument.
        """
        name, passed_on = type(self).__name__, self.passed_on()
        meant = [argument for argument in self.positional if argument not in self.without_meaning]
        accepted = f"it accepts {', '.join(meant) or 'none'}"
        if len(args) > len(self.positional):
            raise ArgumentsError(f"{name}() got {len(args)} positional arguments; {accepted}")
        given = dict(zip(self.positional, args, strict=False))
        for argument, value in kwargs.items():
            if argument in given:
                raise ArgumentsError(f"{name}() got {argument}= twice, by position and by name")
            if argument not in (*self.positional, *self.without_meaning, *passed_on):
                near = difflib.get_close_matches(argument, [*meant, *passed_on], n=1)
                hint = f"; did you mean {near[0]}=?" if near else ""
                raise ArgumentsError(f"{name}() has no argument {argument}={hint}; {accepted}")
            given[argument] = value
        for argument, what_to_know in self.without_meaning.items():
            if argument in given:
                del given[argument]
                _warn_once(name, argument, what_to_know)
        return given

    @classmethod
    def passed_on(cls) -> Collection[str]:
        """Return the arguments that are accepted by name and passed on."""
        return ()

    @classmethod
    def stands_for(cls, base: type) -> bool:
        """Return True if ``base`` is the class that the name stands for in this process; False for a user's class."""
        chip = loaded()
        runs_here = chip is not None and chip.name == cls.backend_name
        return is_vendor_class(cls) and runs_here and base.__name__ == cls.kind and base.__module__ in cls.homes

    def make_draft(self, namespace: Namespace) -> Any:
        """Make the object of ``namespace``, with what is known before a run: its arguments and the chip."""
        raise NotImplementedError

    def settle(self, namespace: Namespace) -> Any:
        """Become the object of ``namespace``; the chip's software is loaded already."""
        return self.become(self.make_draft(namespace))

    def answer(self, attribute: str) -> Any:
        """Return the value of ``attribute`` before a Trainer or a Fabric gets this object; acquires no card."""
        return getattr(draft_of(self), attribute)

    def become(self, made: Any) -> Any:
        """Take the class and the state of ``made``, the object of a namespace, and return this object.

        If a user has derived the class, its methods come first, and the attributes that it has set stay.
        """
        own = {key: value for key, value in vars(self).items() if key != "arguments"}
        # A script may have added to a dictionary that it read, such as the arguments of DDP.
        draft = _drafts.pop(self, None)
        if type(draft) is type(made):
            vars(made).update((key, value) for key, value in vars(draft).items() if isinstance(value, dict))
        cls: Any = type(made) if is_vendor_class(type(self)) else derive(type(self), type(made))
        vars(self).clear()
        vars(self).update(vars(made))
        self.__class__ = cls
        for key, value in own.items():
            setattr(self, key, value)
        return self

    def __repr__(self) -> str:
        if "arguments" not in vars(self):
            return object.__repr__(self)
        given = ", ".join(f"{argument}={value!r}" for argument, value in self.arguments.items())
        return f"{type(self).__name__}({given})"

    def __getattr__(self, attribute: str) -> Any:
        # Copying and pickling ask for special methods, before there are arguments too.
        if attribute.startswith("__") or "arguments" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {attribute!r}")
        return self.answer(attribute)


class AcceleratorName(AcceleratorQuestions, VendorName):
    """A vendor's name for the accelerator, such as ``AcmeAccelerator()``. Its class methods acquire no card."""

    kind = "Accelerator"

    @classmethod
    def stands_for(cls, base: type) -> bool:
        named = vars(base).get("backend_name") == cls.backend_name != ""
        return is_vendor_class(cls) and named and base.__module__ in cls.homes

    @classmethod
    def get_parallel_devices(cls, devices: int | list[int]) -> list[torch.device]:
        """Return the devices with these indices, or the first ones if ``devices`` is a number."""
        return super().get_parallel_devices(cls.parse_devices(devices))

    def make_draft(self, namespace: Namespace) -> Any:
        return classes(namespace).accelerator(self.backend_name)


def is_vendor_class(cls: type) -> bool:
    """Return True if ``cls`` is a vendor's own name, and not a class that a user has derived."""
    return "backend_name" in vars(cls)


def is_open(thing: object, kind: type[VendorName]) -> bool:
    """Return True if ``thing`` is a name of ``kind`` that no Trainer or Fabric has yet."""
    return isinstance(thing, kind) and "arguments" in vars(thing)


def unsupported_names(module: str, *, backend: str, instead: Mapping[str, tuple[str, str]]) -> Callable[[str], type]:
    """Return a ``__getattr__`` for ``module``, for names that Northbridge does not support.

    Scripts may import such names without using them, so each resolves to a class. Making an object of it raises
    :class:`UnsupportedError`. ``instead`` maps each name to the claim with the reason and to a replacement.
    """

    def look_up(name: str) -> type:
        if name not in instead:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return _unsupported(name, backend, *instead[name])

    return look_up


@cache
def _unsupported(name: str, backend: str, capability: str, instead: str) -> type:
    def reject(cls: type, *args: object, **kwargs: object) -> NoReturn:
        claim = get(backend).capabilities.claims()[capability]
        if claim.answer == "yes":
            said = f"{name} is not a class of Northbridge, which has {capability!r} on {backend!r} without it"
        else:
            word = "not supported" if claim.denied else "unknown"
            said = f"{name}: {capability!r} on {backend!r} is {word}{claim.reason and f': {claim.reason}'}"
        raise UnsupportedError(f"{said}. Fix: {instead}", capability=capability)

    return type(name, (), {"__new__": reject, "__doc__": f"Refuses to be made; {instead}."})


def draft_of(name: VendorName) -> Any:
    """Return the object that ``name`` would become now. It is made once; that loads the chip, and acquires no card."""
    if name not in _drafts:
        _drafts[name] = name.make_draft(namespace_at_hand())
    return _drafts[name]


# Not attributes of the names, which may be copied, pickled, or sent to a rank.
_drafts: WeakKeyDictionary[VendorName, Any] = WeakKeyDictionary()


def namespace_at_hand() -> Namespace:
    """Return a namespace that this process has imported, or else one that is installed; those of a Trainer first."""
    by_preference = sorted(NAMESPACES.values(), key=lambda namespace: not namespace.is_trainer)
    imported = [each for each in by_preference if each.name in sys.modules]
    installed = (each for each in by_preference if find_spec(each.name.partition(".")[0]) is not None)
    return imported[0] if imported else next(installed, by_preference[0])


@cache
def arguments_of(wrapper: Any, *by_strategy: str) -> frozenset[str]:
    """Return the parameters of torch's ``wrapper`` of a module, without those that a strategy sets."""
    return frozenset(inspect.signature(wrapper.__init__).parameters) - {"self", "module", *by_strategy}


_warned: set[tuple[str, str]] = set()


def _warn_once(name: str, argument: str, what_to_know: str) -> None:
    if (name, argument) in _warned or os.environ.get("LOCAL_RANK", "0") != "0":
        return
    _warned.add((name, argument))
    warnings.warn(f"{name}({argument}=…) has no meaning any more: {what_to_know}", stacklevel=_depth_of_the_user())


def _depth_of_the_user() -> int:
    """Return the ``stacklevel`` of the user's own line; vendor names differ in the number of calls between."""
    frames = inspect.stack(context=0)[1:]
    inner = (str(frame.frame.f_globals.get("__name__")).startswith("northbridge.") for frame in frames)
    return 1 + sum(takewhile(bool, inner))
