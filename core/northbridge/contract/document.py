"""The file ``contract.toml`` of a backend, of which ``docs/backend-interfaces.md`` has an example."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pydantic
from typing_extensions import Self

from northbridge.backend import Backend
from northbridge.contract.signature import asks_for_arguments, parse
from northbridge.errors import PluginContractError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

if TYPE_CHECKING:
    from importlib.abc import Traversable  # at run time Python 3.12 warns of it, and 3.14 has it no more


FILE = "contract.toml"

_HEADER = re.compile(r"^\s*\[\[\s*symbol\s*\]\]")


Kind = Literal["module", "class", "function", "method", "attribute", "environment", "behaviour", "absent"]
"""``absent`` is known to be missing; ``behaviour`` is a documented fact without a symbol."""

_CALLED = ("function", "method")
_RELEASED = ("module", "class", "function", "method", "attribute")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

Text = Annotated[str, pydantic.StringConstraints(min_length=1)]


class Symbol(pydantic.BaseModel):
    """One line of the contract: a symbol of the vendor's, and the facts about it."""

    # Strict: a release without quotation marks, 1.20, would be read as 1.2.
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Text
    kind: Kind
    signature: str = ""
    meaning: Text
    acquires: bool = False
    """True if calling it, or reading it if it is an attribute, acquires a card for this process."""
    since: str = ""
    evidence: Literal["read", "inferred"]
    source: Annotated[str, pydantic.StringConstraints(pattern=r"^https?://\S+$")]
    required: bool = True
    """True if every release and mode that the backend supports has it."""
    untouched: str = ""
    """The reason why no test touches it, if none does."""
    tried: bool = pydantic.Field(default=False, alias="try")
    """True if the doctor may call it, without arguments."""

    @pydantic.model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.kind != "behaviour" and not _DOTTED.fullmatch(self.name):
            raise ValueError(f"name={self.name!r} is not a dotted name")
        if self.kind in _CALLED and not self.signature:
            raise ValueError(f"a {self.kind} needs a signature")
        if self.signature and self.kind not in (*_CALLED, "class"):
            raise ValueError(f"kind={self.kind!r} has no signature")
        said = parse(self.signature) if self.signature else None
        if self.since == "?" or (self.kind in _RELEASED and self.evidence == "read" and not self.since):
            raise ValueError("since= is missing; only an inferred line may leave it out")
        if self.tried and (self.kind != "function" or said is None or said.return_annotation is said.empty):
            raise ValueError("try=true needs a function whose signature has a result")
        if self.tried and said is not None and asks_for_arguments(said):
            raise ValueError("try=true needs a signature without required arguments")
        return self

    def __str__(self) -> str:
        return f"{self.name}{self.signature}"


class _Document(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    vendor: Text
    packages: Annotated[list[Text], pydantic.Field(min_length=1)]  # the vendor's importable top-level modules
    distributions: list[Text] = []  # that install them
    symbol: list[dict[str, Any]]


@dataclass(frozen=True)
class Contract:
    """The vendor symbols of one backend; ``backend`` is its name, and ``who`` its name in messages."""

    path: Path | Traversable
    backend: str
    who: str
    vendor: str
    packages: tuple[str, ...]
    distributions: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    lines: Mapping[str, int] = field(repr=False)
    """The line number in the file at which each symbol begins, by the symbol's name."""

    @classmethod
    def read(cls, path: Path | Traversable, *, backend: str = "", who: str = "") -> Self:
        """Read the contract in the file ``path``, which belongs to ``backend``; messages call the backend ``who``.

        Raises :class:`PluginContractError`, which names the line.
        """
        who = who or (f"backend {backend!r}" if backend else "")
        wrong = partial(_wrong, path, backend, who)
        try:
            text = path.read_text(encoding="utf-8")
            document = _Document.model_validate(tomllib.loads(text))
        except pydantic.ValidationError as error:
            raise wrong("", _complaint(error, _Document)) from None
        except RecursionError:
            raise wrong("", "its values are nested too deeply") from None
        except (OSError, ValueError) as error:  # invalid UTF-8 or TOML is a ValueError
            raise wrong("", str(error)) from error
        # TOML's reader does not keep line numbers.
        starts = [number for number, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
        if len(starts) != len(document.symbol):
            raise wrong("", f"{len(document.symbol)} symbols, and {len(starts)} lines that begin with [[symbol]]")
        symbols: dict[str, Symbol] = {}
        lines: dict[str, int] = {}
        for entry, line in zip(document.symbol, starts, strict=True):
            try:
                symbol = Symbol.model_validate(entry)
            except pydantic.ValidationError as error:
                raise wrong(f" line {line}", f"{entry.get('name')!r}: {_complaint(error, Symbol)}") from None
            if symbol.name in symbols:
                raise wrong(f" line {line}", f"{symbol.name!r} is in line {lines[symbol.name]} already")
            symbols[symbol.name], lines[symbol.name] = symbol, line
        packages, distributions = tuple(document.packages), tuple(document.distributions)
        return cls(path, backend, who, document.vendor, packages, distributions, tuple(symbols.values()), lines)

    def place(self, symbol: Symbol) -> str:
        """Return the place of ``symbol`` in the file: ``contract.toml line 120``."""
        return f"{self.path.name} line {self.lines[symbol.name]}"


def contract_of(backend: Backend, *, who: str = "") -> Contract | None:
    """Read the contract beside the bridge of ``backend``, or beside a base class of the bridge.

    Messages call the backend ``who``. Returns None without a contract. Raises :class:`PluginContractError`.
    """
    for kind in type(backend.bridge).__mro__:
        module = sys.modules.get(kind.__module__)
        package = getattr(module, "__package__", None)
        if not package:  # a script, or a plugin that is one file
            continue
        path = files(package) / FILE
        if path.is_file():
            return Contract.read(path, backend=backend.name, who=who)
    return None


def _wrong(path: Path | Traversable, backend: str, who: str, line: str, found: str) -> PluginContractError:
    whose = f"{who}: its {path.name}" if who else str(path)
    return PluginContractError(f"{whose}{line} is wrong: {found}. Fix: tell its author", backend=backend)


def _complaint(error: pydantic.ValidationError, model: type[pydantic.BaseModel]) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"{where} is missing"
    if first["type"] == "extra_forbidden":
        fields = sorted(each.alias or name for name, each in model.model_fields.items())
        return f"there is no {where!r}; there are {', '.join(fields)}"
    if not where:
        return str(first["msg"]).removeprefix("Value error, ")
    return f"{where}={first['input']!r}: {first['msg']}"
