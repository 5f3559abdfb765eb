"""Signatures, as a contract writes them and as the software has them."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from inspect import Parameter, Signature

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class IncomparableError(Exception):
    """Raised for an object that cannot be compared; the text is the reason."""


@cache
def parse(text: str) -> Signature:
    """Parse a text such as ``(device=None) -> str`` to a signature, whose annotations and defaults are texts.

    Raises :class:`ValueError`.
    """
    try:
        (function,) = ast.parse(f"def _{text}: ...").body
        assert isinstance(function, ast.FunctionDef)
    except (SyntaxError, ValueError, AssertionError):
        raise ValueError(f"{text!r} is not a signature such as '(device=None) -> str'") from None
    said = function.args
    positional = [*said.posonlyargs, *said.args]
    defaults = [None] * (len(positional) - len(said.defaults)) + said.defaults
    places = [Parameter.POSITIONAL_ONLY] * len(said.posonlyargs) + [Parameter.POSITIONAL_OR_KEYWORD] * len(said.args)
    parameters = [
        *map(_parameter, positional, places, defaults),
        *([_parameter(said.vararg, Parameter.VAR_POSITIONAL)] if said.vararg else []),
        *map(_parameter, said.kwonlyargs, [Parameter.KEYWORD_ONLY] * len(said.kwonlyargs), said.kw_defaults),
        *([_parameter(said.kwarg, Parameter.VAR_KEYWORD)] if said.kwarg else []),
    ]
    return Signature(parameters, return_annotation=_text(function.returns))


def _parameter(said: ast.arg, kind: inspect._ParameterKind, default: ast.expr | None = None) -> Parameter:
    return Parameter(said.arg, kind, default=_text(default), annotation=_text(said.annotation))


def _text(node: ast.expr | None) -> object:
    return Signature.empty if node is None else ast.unparse(node)


def signature_of(value: object) -> Signature:
    """Return the signature of an object of the software. Raises :class:`IncomparableError`."""
    try:
        return inspect.signature(value)  # type: ignore[arg-type]  # an object that is not callable raises TypeError
    except (TypeError, ValueError) as error:
        raise IncomparableError(f"it has no signature: {error}") from None


def asks_for_arguments(said: Signature) -> bool:
    """Return True if a call needs arguments."""
    return any(each.default is each.empty and each.kind not in _VARIABLE for each in said.parameters.values())


def difference(said: Signature, found: Signature) -> str:
    """Return why a call that ``said`` allows could fail on ``found``; empty if no such call can.

    Each parameter needs the same name and place; a positional-only parameter of ``said`` may have another name. Further
    parameters need a default. Raises :class:`IncomparableError` if ``found`` accepts any arguments.
    """
    by_place = [each for each in found.parameters.values() if each.kind in _POSITIONAL]
    matched: list[Parameter] = []
    for place, wanted in enumerate(said.parameters.values()):
        alone = wanted.kind is Parameter.POSITIONAL_ONLY
        given = found.parameters.get(wanted.name) if not alone else by_place[place] if place < len(by_place) else None
        if given is None or (wanted.kind in _VARIABLE) != (given.kind in _VARIABLE):
            if _accepts_anything(found, wanted):
                raise IncomparableError(f"it accepts anything: {found}")
            return f"it has no parameter {wanted.name!r}"
        if not alone and given.kind is not wanted.kind and given.kind is not Parameter.POSITIONAL_OR_KEYWORD:
            return f"its parameter {wanted.name!r} is {given.kind.description}, not {wanted.kind.description}"
        if wanted.kind in _POSITIONAL and by_place.index(given) != place:
            return f"its parameter {wanted.name!r} is number {by_place.index(given) + 1}, not {place + 1}"
        if wanted.default is not wanted.empty and given.default is given.empty:
            return f"its parameter {wanted.name!r} must be given"
        matched.append(given)
    for given in found.parameters.values():
        if given not in matched and given.default is given.empty and given.kind not in _VARIABLE:
            return f"it asks for {given.name!r} too"
    return ""


def _accepts_anything(found: Signature, wanted: Parameter) -> bool:
    kinds = {each.kind for each in found.parameters.values()}
    by_place = wanted.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)
    by_name = wanted.kind not in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
    return (not by_place or Parameter.VAR_POSITIONAL in kinds) and (not by_name or Parameter.VAR_KEYWORD in kinds)


def is_kind_of(value: object, annotation: str) -> bool:
    """Return True if ``value`` has the type ``annotation``, a text such as ``dict[str, int] | None``.

    Classes are compared only by name, without their modules; the text in brackets is ignored.
    """
    return _names_class_of(value, ast.parse(annotation, mode="eval").body)


def _names_class_of(value: object, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _names_class_of(value, node.left) or _names_class_of(value, node.right)
    if isinstance(node, ast.Subscript):
        return _names_class_of(value, node.value)
    name = ast.unparse(node).rpartition(".")[2]
    if name == "None":
        return value is None
    if name == "Any":
        return True
    if isinstance(value, bool):  # Python counts it as an int, but it is not a count
        return name in ("bool", "object")
    return name in [each.__name__ for each in type(value).__mro__] or (name == "float" and isinstance(value, int))
