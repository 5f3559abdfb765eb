"""What keeps ``contract.toml`` honest: the backend's code, the stand-ins, and a record of this whole run."""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from inspect import Signature
from pathlib import Path
from types import ModuleType

import pytest
from tests.backends.hpu.conftest import BACKEND, CONTRACT, ROOM
from tests.backends.hpu.vendor_symbols import Use, symbols, variables

from northbridge.contract import Symbol
from northbridge.contract.signature import parse
from northbridge_hpu.simulated import record

LINES = {symbol.name: symbol for symbol in CONTRACT.symbols}
OFFERED = [symbol for symbol in CONTRACT.symbols if symbol.kind not in ("environment", "behaviour", "absent")]
SOURCES = sorted(BACKEND.glob("*.py"))


def uses(source: str) -> set[Use]:
    return symbols(source, CONTRACT.packages, "hpu")


# The code of the backend


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_the_backend_names_nothing_that_the_contract_lacks(file: Path) -> None:
    source = file.read_text()
    named = {(record.canonical(use.name), use.line) for use in uses(source)}
    named |= {(use.name, use.line) for use in variables(source)}
    assert [f"{file.name}:{line}: {name}" for name, line in sorted(named) if name not in LINES] == []


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_what_is_known_to_be_absent_is_only_asked_for(file: Path) -> None:
    wrong = [use for use in uses(file.read_text()) if LINES[use.name].kind == "absent" and not use.is_question]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "import habana_frameworks.torch.core as htcore; htcore.mark_step()",
        "from habana_frameworks.torch import core; core.mark_step()",
        "from habana_frameworks.torch.core import mark_step as mark; mark()",
        "import importlib; htcore = importlib.import_module('habana_frameworks.torch.core'); htcore.mark_step()",
        "from importlib import import_module; import_module('habana_frameworks.torch.core').mark_step()",
        "import sys; sys.modules['habana_frameworks.torch.core'].mark_step()",
        "import habana_frameworks.torch.core as htcore; getattr(htcore, 'mark_step', None)",
        """
        import habana_frameworks.torch.core as htcore
        for name in ("mark_step",): getattr(htcore, name)
        """,
        """
        import habana_frameworks.torch.core as htcore
        NAMES = {"mark_step": 1}
        found = [getattr(htcore, name) for name, number in NAMES.items()]
        """,
        """
        def get():
            import habana_frameworks.torch.core
            return habana_frameworks.torch.core.mark_step
        """,
        """
        class Bridge:
            def load(self):
                import habana_frameworks.torch.core as htcore
                self._core = htcore
            def after_step(self):
                self._core.mark_step()
        """,
        """
        class Bridge:
            def _core(self):
                import habana_frameworks.torch.core as htcore
                return htcore
            def after_step(self):
                self._core().mark_step()
        """,
        """
        def core():
            import habana_frameworks.torch.core as htcore
            yield htcore
        def after_step():
            with core() as opened:
                opened.mark_step()
        """,
    ],
)
def test_the_walk_follows_a_module_to_its_function(source: str) -> None:
    assert "habana_frameworks.torch.core.mark_step" in {use.name for use in uses(textwrap.dedent(source))}


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.hpu.synchronize()",
        "import torch.hpu\ntorch.hpu.synchronize()",
        "from torch import hpu\nhpu.synchronize()",
        "import torch\ntorch.get_device_module('hpu').synchronize()",
        "import torch\nhasattr(torch.hpu, 'synchronize')",
        "class D:\n    def f(self):\n        self.module.synchronize()",
        "class D:\n    def f(self):\n        module = self.module\n        module.synchronize()",
    ],
)
def test_the_walk_knows_the_names_of_torchs_device_module(source: str) -> None:
    assert "torch.hpu.synchronize" in {use.name for use in uses(source)}


def test_the_walk_refuses_what_nobody_can_read() -> None:
    with pytest.raises(ValueError, match=r"line 2: getattr\(pyhlml, name\) names no constant"):
        uses("import pyhlml\ngetattr(pyhlml, name)")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import os\nos.environ['ID']", "ID"),
        ("import os\nos.environ.setdefault('ID', '1')", "ID"),
        ("import os\nos.getenv('ID')", "ID"),
        ("raise ValueError(f'PT_HPU_LAZY_MODE={1} is wrong')", "PT_HPU_LAZY_MODE"),
        ("class S:\n    prefix = ''\n    rank: int = 1", "RANK"),
    ],
)
def test_the_walk_sees_variables(source: str, name: str) -> None:
    assert {use.name for use in variables(source)} == {name}


# The stand-ins


@pytest.fixture(scope="session")
def stand_ins(hpu: ModuleType) -> dict[str, object]:
    """Everything that the stand-ins offer, by the dotted names that the contract uses."""
    offered: dict[str, object] = {}
    for package in CONTRACT.packages:
        for module in _modules(importlib.import_module(package)):
            offered[record.canonical(module.__name__)] = module
            offered.update(_members(module))
    return offered


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    yield module
    for found in pkgutil.iter_modules(getattr(module, "__path__", [])):
        yield from _modules(importlib.import_module(f"{module.__name__}.{found.name}"))


def _members(module: ModuleType) -> Iterator[tuple[str, object]]:
    # Past the record: to compare a symbol is not to use it.
    for name, value in vars(module).items():
        dotted = record.canonical(f"{module.__name__}.{name}")
        is_public = not name.startswith("_") and name != "annotations"
        if is_public or dotted in LINES:
            yield dotted, value
        if is_public and isinstance(value, enum.EnumMeta):
            yield from ((f"{dotted}.{member}", value[member]) for member in value.__members__)


def test_the_stand_ins_offer_what_the_contract_lists_and_nothing_else(stand_ins: dict[str, object]) -> None:
    listed = {symbol.name for symbol in OFFERED}
    assert sorted(set(stand_ins) - listed) == []
    assert sorted(listed - set(stand_ins)) == []


@pytest.mark.parametrize("symbol", OFFERED, ids=lambda symbol: symbol.name)
def test_a_stand_in_is_what_its_line_says(symbol: Symbol, stand_ins: dict[str, object]) -> None:
    value = stand_ins[symbol.name]
    assert isinstance(value, ModuleType) == (symbol.kind == "module")
    assert isinstance(value, type) == (symbol.kind == "class")
    assert callable(value) == (symbol.kind in ("class", "function"))
    if symbol.signature:
        assert callable(value)
        said, found = parse(symbol.signature), inspect.signature(value)
        assert [(each.name, each.kind, each.default) for each in said.parameters.values()] == [
            (each.name, each.kind, each.default if each.default is each.empty else repr(each.default))
            for each in found.parameters.values()
        ]
        assert said.return_annotation in (Signature.empty, found.return_annotation)


# The record of this run


@pytest.fixture(scope="session")
def touched() -> set[tuple[str, str]]:
    """What all processes of this run have read, called, written or shown, as kind and name."""
    lines = (ROOM / "record" / record.FILE).read_text().splitlines()
    return {(kind, name) for kind, _, name in (line.partition(" ") for line in lines)}


@pytest.mark.of_the_whole_run
def test_nothing_was_touched_that_the_contract_lacks(touched: set[tuple[str, str]]) -> None:
    assert sorted({name for _, name in touched} - set(LINES)) == []


@pytest.mark.of_the_whole_run
def test_every_line_was_touched_or_says_why_not(touched: set[tuple[str, str]]) -> None:
    assert [
        symbol.name for symbol in CONTRACT.symbols if not symbol.untouched and not _is_touched(symbol, touched)
    ] == []
    assert [symbol.name for symbol in CONTRACT.symbols if symbol.untouched and _is_touched(symbol, touched)] == []


def _is_touched(symbol: Symbol, touched: set[tuple[str, str]]) -> bool:
    kinds = {kind for kind, name in touched if name == symbol.name}
    if symbol.kind in ("function", "method"):
        return "call" in kinds  # the doctor reads them all
    if symbol.kind == "module":
        return any(name.startswith(f"{symbol.name}.") for _, name in touched)
    if symbol.kind == "attribute":
        return not touched.isdisjoint({("read", symbol.name), ("read", symbol.name.rpartition(".")[0])})
    return bool(kinds)


def test_a_run_leaves_a_record() -> None:
    assert record.is_recording()
    assert sys.modules["pyhlml"].__class__ is not ModuleType
