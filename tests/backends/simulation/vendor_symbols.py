"""The vendor symbols in a Python file, found by reading its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_OURS = ("NORTHBRIDGE_", "_NORTHBRIDGE_")
_WAYS = ("torch", "importlib", "importlib.import_module", "sys")
_ASKING = ("os.environ.get", "os.environ.pop", "os.environ.setdefault", "os.getenv")


@dataclass(frozen=True)
class Use:
    """One place where a symbol, or a variable of the environment, is named."""

    name: str
    line: int
    is_question: bool = False
    """True if it is read with ``getattr`` or ``hasattr``, and may be missing."""


def symbols(source: str, packages: tuple[str, ...], device_type: str) -> set[Use]:
    """Return each symbol of the vendor's modules, and of ``torch.<device_type>``, that ``source`` names.

    It follows imports, names, attributes of self, functions that return or yield a module, and constants; a name means
    the same in the whole file. Raises ValueError if an attribute's name is not a constant.
    """
    return _Walk(ast.parse(source), (*packages, f"torch.{device_type}"), f"torch.{device_type}").uses()


def variables(source: str, beginnings: tuple[str, ...]) -> set[Use]:
    """Return each variable of the environment that ``source`` names.

    In any text it is a name that begins with one of ``beginnings`` and an underscore; where the environment is asked,
    it is any name. The fields of settings without a prefix are variables too.
    """
    tree = ast.parse(source)
    variable = re.compile(rf"\b(?:{'|'.join(beginnings)})_[A-Z0-9_]*[A-Z0-9]\b")
    found = {
        Use(name, node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in variable.findall(node.value)
    }
    asked = {Use(name, line) for name, line in [*_asked(tree), *_settings(tree)] if not name.startswith(_OURS)}
    return found | asked


def _asked(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            key: ast.expr = node.slice
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in _ASKING and node.args:
            key = node.args[0]
        else:
            continue
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, node.lineno


def _settings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(each) == "prefix = ''" for each in node.body):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id.upper(), each.lineno


@dataclass
class _Walk:
    tree: ast.Module
    vendors: tuple[str, ...]
    device_module: str
    names: dict[str, str] = field(default_factory=dict)
    """Return the object behind a name of the file, and the function that returns it."""
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The constants that a name of the file goes through."""

    def uses(self) -> set[Use]:
        known = -1
        while known != len(self.names) + len(self.texts):  # a name may stand for one that is bound below it
            known = len(self.names) + len(self.texts)
            for node in ast.walk(self.tree):
                self._bind(node)
        return set(self._found())

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._name(alias.asname or top, alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self._name(alias.asname or alias.name, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(node.optional_vars, node.context_expr)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._go_through(node.target, node.iter)
        elif isinstance(node, ast.FunctionDef):
            for each in ast.walk(node):
                if isinstance(each, (ast.Return, ast.Yield)) and each.value is not None:
                    self._name(f"{node.name}()", self._stands_for(each.value))

    def _name(self, name: str, dotted: str | None) -> None:
        if dotted is not None and (dotted in _WAYS or self._is_vendors(dotted, parents=True)):
            self.names.setdefault(name, dotted)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        self._name(ast.unparse(target), self._stands_for(value))
        literal = _texts(value)
        if literal:
            self.texts[ast.unparse(target)] = literal

    def _go_through(self, target: ast.expr, over: ast.expr) -> None:
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr in ("items", "keys"):
            over = over.func.value
        texts = _texts(over) or self.texts.get(ast.unparse(over))
        first = target.elts[0] if isinstance(target, ast.Tuple) else target
        if texts:
            self.texts[ast.unparse(first)] = texts

    def _is_vendors(self, dotted: str, *, parents: bool = False) -> bool:
        return any(
            f"{dotted}.".startswith(f"{each}.") or (parents and f"{each}.".startswith(f"{dotted}."))
            for each in self.vendors
        )

    def _stands_for(self, node: ast.expr) -> str | None:
        known = self.names.get(ast.unparse(node))
        if known is not None:
            return known
        if ast.unparse(node) == "self.module":
            return self.device_module
        if isinstance(node, ast.Attribute):
            owner = self._stands_for(node.value)
            return f"{owner}.{node.attr}" if owner is not None else None
        if isinstance(node, ast.Subscript) and self._stands_for(node.value) == "sys.modules":
            return _text(node.slice)
        return self._returned(node) if isinstance(node, ast.Call) else None

    def _returned(self, call: ast.Call) -> str | None:
        function = ast.unparse(call.func)
        if self._stands_for(call.func) == "importlib.import_module":
            return _text(call.args[0])
        if self._stands_for(call.func) == "torch.get_device_module":
            return self.device_module
        if function == "getattr" and self._stands_for(call.args[0]) is not None:
            return f"{self._stands_for(call.args[0])}.{_text(call.args[1])}"
        return self.names.get(f"{function.removeprefix('self.')}()")

    def _found(self) -> Iterator[Use]:
        inner = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Use(alias.name, node.lineno) for alias in node.names if self._is_vendors(alias.name))
            elif isinstance(node, ast.ImportFrom):
                named = (f"{node.module}.{alias.name}" for alias in node.names)
                yield from (Use(name, node.lineno) for name in named if self._is_vendors(name))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
                yield from self._asked_for(node)
            elif isinstance(node, (ast.Attribute, ast.Name, ast.Call)) and id(node) not in inner:
                dotted = self._stands_for(node)
                if dotted is not None and self._is_vendors(dotted):
                    yield Use(dotted, node.lineno)

    def _asked_for(self, call: ast.Call) -> Iterator[Use]:
        owner = self._stands_for(call.args[0])
        if owner is None or not self._is_vendors(owner):
            return
        text = _text(call.args[1])
        names = (text,) if text is not None else self.texts.get(ast.unparse(call.args[1]), ())
        if not names:
            raise ValueError(
                f"line {call.lineno}: {ast.unparse(call)} names no constant: nobody can tell what it reads"
            )
        for name in names:
            yield Use(f"{owner}.{name}", call.lineno, is_question=True)


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _texts(node: ast.expr) -> tuple[str, ...]:
    elements = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    found = [_text(each) for each in elements if each is not None]
    return tuple(each for each in found if each is not None) if all(each is not None for each in found) else ()
