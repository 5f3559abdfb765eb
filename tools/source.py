"""Look-up of a dotted name in a wheel's source, by its syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Signature

from northbridge.contract.check import NotThereError
from northbridge.contract.signature import parse
from tools.wheel import UnreadableError, Wheel

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)

_TRANSPARENT = {"staticmethod", "classmethod", "property", "contextmanager", "cache", "lru_cache", "no_grad", "wraps"}
"""Decorators that leave a function's parameters as they are."""


@dataclass(frozen=True)
class Thing:
    """A module, or what a statement of it defines."""

    module: str
    node: ast.AST | None = None
    """The class, the function or the value; None for the module itself."""


class Source:
    """The names of a wheel.

    ``torch.acme`` is the module that the wheel registers with torch for that device type, unless it is torch's own.
    """

    def __init__(self, wheel: Wheel, device_type: str) -> None:
        self.wheel = wheel
        self._device_module = f"torch.{device_type}"
        self._type = device_type
        self._open: set[tuple[str, str]] = set()

    def look_up(self, name: str) -> Thing:
        """Return what is called ``name``. Raises NotThereError and UnreadableError."""
        if f"{name}.".startswith(f"{self._device_module}.") and self._device_module not in self.wheel.modules:
            if self._registered is None:
                raise UnreadableError(f"no module here registers {self._device_module} with torch")
            name = self._registered + name.removeprefix(self._device_module)
        first, *parts = name.split(".")
        found = self._module(first)
        for part in parts:
            found = self._member(found, part)
        return found

    def place(self, thing: Thing) -> str:
        """Return the file in which ``thing`` is defined, and the line."""
        file = self.wheel.modules.get(thing.module, thing.module)
        line = getattr(thing.node, "lineno", None)
        return f"{file}:{line}" if line is not None else file

    def signature(self, thing: Thing) -> Signature:
        """Return the signature of a function, or of a class's constructor. Raises UnreadableError."""
        node = thing.node
        is_method = isinstance(node, ast.ClassDef)
        if isinstance(node, ast.ClassDef):
            node = self._constructor(thing)
        if not isinstance(node, FUNCTION):
            raise UnreadableError("it is made at run time")
        names = {_last_name(each): ast.unparse(each) for each in node.decorator_list}
        if unknown := [text for name, text in names.items() if name not in _TRANSPARENT]:
            raise UnreadableError(f"it is decorated by {unknown[0]}")
        said = parse(f"({ast.unparse(node.args)})")
        of_object = is_method or (bool(said.parameters) and next(iter(said.parameters)) in ("self", "cls"))
        if of_object and "staticmethod" not in names:
            return said.replace(parameters=list(said.parameters.values())[1:])
        return said

    @cached_property
    def _registered(self) -> str | None:
        for module in self.wheel.modules:
            if "_register_device_module" not in self.wheel.text(module):
                continue
            for node in ast.walk(self.wheel.tree(module)):
                if isinstance(node, ast.Call) and _last_name(node.func) == "_register_device_module":
                    of_type = [each for each in node.args[:1] if isinstance(each, ast.Constant)]
                    if of_type and of_type[0].value == self._type and node.args[1:]:
                        return ast.unparse(node.args[1])
        return None

    def _module(self, name: str) -> Thing:
        if name in self.wheel.modules:
            return Thing(name)
        if name in self.wheel.extensions:
            raise UnreadableError(f"{name} is compiled")
        if any(each.startswith(f"{name}.") for each in self.wheel.modules):
            return Thing(name)  # a package without a file of its own
        top = name.partition(".")[0]
        if any(f"{each}.".startswith(f"{top}.") for each in self.wheel.modules):
            raise NotThereError(f"there is no module {name!r}")
        raise UnreadableError(f"{top} is not in this wheel")

    def _member(self, owner: Thing, part: str) -> Thing:
        if owner.node is None:
            return self._of_module(owner.module, part)
        if isinstance(owner.node, ast.ClassDef):
            return self._of_class(owner, part)
        raise UnreadableError(f"{part!r} belongs to an object that is made at run time")

    def _of_module(self, module: str, part: str) -> Thing:
        bound = self._bound(module).get(part)
        if bound is not None and (module, part) not in self._open:
            self._open.add((module, part))
            try:
                return self._stands_for(module, part, bound)
            finally:
                self._open.discard((module, part))
        for star in self._stars(module):
            if (star, part) in self._open or not self._exports(star, part):
                continue
            return self._of_module(star, part)
        try:
            return self._module(f"{module}.{part}")
        except NotThereError:
            if "__getattr__" in self._bound(module):
                raise UnreadableError(f"{module} makes names at run time") from None
            raise NotThereError(f"{module} has no {part!r}") from None

    def _of_class(self, owner: Thing, part: str) -> Thing:
        assert isinstance(owner.node, ast.ClassDef)
        body = _bindings(owner.node.body)
        if part in body:
            return Thing(owner.module, body[part])
        asked = owner.module, f"{owner.node.name}:{owner.node.lineno}.{part}"
        if asked in self._open:
            raise UnreadableError(f"{owner.node.name} is a base of itself")
        self._open.add(asked)
        try:
            return self._of_bases(owner.module, owner.node, part)
        finally:
            self._open.discard(asked)

    def _of_bases(self, module: str, owner: ast.ClassDef, part: str) -> Thing:
        unknown = ""
        for base in owner.bases:
            try:
                return self._member(self._dotted(module, ast.unparse(base)), part)
            except NotThereError:
                continue
            except UnreadableError as error:
                unknown = unknown or f"its base {ast.unparse(base)} is not readable: {error}"
        if unknown:
            raise UnreadableError(unknown)
        raise NotThereError(f"{owner.name} has no {part!r}")

    def _constructor(self, thing: Thing) -> ast.AST | None:
        for name in ("__init__", "__new__"):
            try:
                return self._of_class(thing, name).node
            except NotThereError:
                continue
        raise UnreadableError("it has no constructor of its own")

    def _stands_for(self, module: str, name: str, node: ast.AST) -> Thing:
        if isinstance(node, ast.Import):
            alias = next(each for each in node.names if name in (each.asname, each.name.partition(".")[0]))
            return self._module(alias.name if alias.asname else name)
        if isinstance(node, ast.ImportFrom):
            alias = next(each for each in node.names if (each.asname or each.name) == name)
            origin = self._origin(module, node)
            return self._of_module(self._module(origin).module, alias.name)
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, (ast.Name, ast.Attribute)):
            try:
                return self._dotted(module, ast.unparse(value))
            except NotThereError:  # a builtin, or a name of a function's
                return Thing(module, value)
        return Thing(module, node)

    def _dotted(self, module: str, text: str) -> Thing:
        first, *parts = text.split(".")
        found = self._of_module(module, first)
        for part in parts:
            found = self._member(found, part)
        return found

    def _origin(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        up = node.level - self.wheel.is_package(module)
        parts = module.split(".")
        return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])

    def _bound(self, module: str) -> dict[str, ast.AST]:
        return _bindings(self.wheel.tree(module).body) if module in self.wheel.modules else {}

    def _stars(self, module: str) -> Iterator[str]:
        for node in _statements(self.wheel.tree(module).body) if module in self.wheel.modules else ():
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                origin = self._origin(module, node)
                if origin in self.wheel.modules:
                    yield origin

    def _exports(self, module: str, name: str) -> bool:
        listed = self._bound(module).get("__all__")
        value = getattr(listed, "value", None)
        if isinstance(value, (ast.List, ast.Tuple)):
            return any(isinstance(each, ast.Constant) and each.value == name for each in value.elts)
        return not name.startswith("_") and name in self._bound(module)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body, and of the branches in it."""
    for node in body:
        yield node
        for branch in ("body", "orelse", "finalbody"):
            if not isinstance(node, (*FUNCTION, ast.ClassDef)):
                yield from _statements(getattr(node, branch, []))
        for handler in getattr(node, "handlers", []):
            yield from _statements(handler.body)


def _bindings(body: Sequence[ast.stmt]) -> dict[str, ast.AST]:
    """Return the statement that binds each name; of several, the first, as those of an ``else`` are substitutes."""
    found: dict[str, ast.AST] = {}
    for node in _statements(body):
        for name in _names(node):
            # A function replaces a mere declaration of its name.
            if name not in found or isinstance(found[name], (ast.Assign, ast.AnnAssign)):
                found[name] = node
    return found


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (*FUNCTION, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Import):
        yield from (each.asname or each.name.partition(".")[0] for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (each.asname or each.name for each in node.names if each.name != "*")
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]
