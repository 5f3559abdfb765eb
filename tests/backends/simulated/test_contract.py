"""Checks of ``contract.toml`` against the backend's code, the stand-ins, and a record of the whole run."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from inspect import Signature
from types import ModuleType

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.simulation import ROOM

from northbridge.contract import Symbol
from northbridge.contract.signature import parse
from northbridge.discovery.simulated import simulation_of


@pytest.fixture(scope="module")
def stand_ins(sim: SimChip, loaded: ModuleType) -> dict[str, object]:
    """Everything that the tables of stand-ins offer, by the dotted names that the contract uses."""
    offered: dict[str, object] = {}
    for module in _modules(sim):
        offered[sim.record.canonical(module.__name__)] = module
        offered.update(_members(sim, module))
    return offered


class TestTheStandIns:
    """The stand-ins offer what the contract lists."""

    def test_they_offer_what_it_lists(self, sim: SimChip, stand_ins: dict[str, object]) -> None:
        assert sorted({symbol.name for symbol in sim.offered} - set(stand_ins)) == []

    def test_each_is_what_its_line_says(self, sim: SimChip, stand_ins: dict[str, object]) -> None:
        assert [each.name for each in sim.offered if not _is_as_said(each, stand_ins[each.name])] == []


def _is_as_said(symbol: Symbol, value: object) -> bool:
    callables = ("class", "function", "method")
    kinds = (isinstance(value, ModuleType), isinstance(value, type), callable(value))
    if kinds != (symbol.kind == "module", symbol.kind == "class", symbol.kind in callables):
        return False
    if not symbol.signature:
        return True
    assert callable(value)
    said, found = parse(symbol.signature), inspect.signature(value)
    theirs = list(found.parameters.values())
    if symbol.kind == "method":  # as it is called
        theirs = theirs[1:]
    defaults = [each.default if each.default is each.empty else repr(each.default) for each in theirs]
    return (
        [each.default for each in said.parameters.values()] == defaults
        # A line that has a parameter by place alone knows no name for it.
        and all(
            mine.kind is mine.POSITIONAL_ONLY or (mine.name, mine.kind) == (other.name, other.kind)
            for mine, other in zip(said.parameters.values(), theirs, strict=True)
        )
        and said.return_annotation in (Signature.empty, found.return_annotation)
    )


class TestTheRecord:
    """What this run's processes have read, called, written or shown is in the contract, or in a table of stand-ins."""

    @pytest.fixture(scope="class")
    @classmethod
    def touched(cls, sim: SimChip) -> set[tuple[str, str]]:
        """All of it, as kind and name."""
        lines = (ROOM / "record" / sim.record.FILE).read_text().splitlines()
        return {(kind, name) for kind, _, name in (line.partition(" ") for line in lines)}

    def test_a_run_leaves_a_record(self, sim: SimChip, loaded: ModuleType) -> None:
        assert sim.record.is_recording()
        for package in sim.contract.packages:
            importlib.import_module(package)
            assert sys.modules[package].__class__ is not ModuleType

    @pytest.mark.of_the_whole_run
    def test_nothing_else_was_touched(
        self, sim: SimChip, touched: set[tuple[str, str]], stand_ins: dict[str, object]
    ) -> None:
        assert sorted({name for _, name in touched} - set(sim.lines) - set(stand_ins)) == []

    @pytest.mark.of_the_whole_run
    def test_backend_relies_on_the_contract_alone(self, sim: SimChip, touched: set[tuple[str, str]]) -> None:
        code = "".join(file.read_text() for file in sim.folder.glob("*.py"))
        variables = set(re.findall(rf"\b(?:{'|'.join(sim.variables)})_[A-Z0-9_]*[A-Z0-9]\b", code))

        assert sorted({name for kind, name in touched if kind == "rely"} - set(sim.lines)) == []
        assert sorted(variables - set(sim.lines)) == []

    @pytest.mark.of_the_whole_run
    def test_every_line_was_touched_or_says_why_not(self, sim: SimChip, touched: set[tuple[str, str]]) -> None:
        symbols = sim.contract.symbols
        assert [each.name for each in symbols if not each.untouched and not _is_touched(each, touched)] == []
        assert [each.name for each in symbols if each.untouched and _is_touched(each, touched)] == []


def _modules(chip: SimChip) -> Iterator[ModuleType]:
    simulation = simulation_of(chip.name)
    assert simulation is not None
    for table in map(str, simulation.stand_ins.values()):
        yield from map(importlib.import_module, importlib.import_module(table).STAND_INS)


def _members(chip: SimChip, module: ModuleType) -> Iterator[tuple[str, object]]:
    # Past the record: to compare a symbol is not to use it.
    for name, value in vars(module).items():
        dotted = chip.record.canonical(f"{module.__name__}.{name}")
        if name.startswith("__") and dotted not in chip.lines:
            continue
        yield dotted, value
        if isinstance(value, type):
            methods = ((f"{dotted}.{method}", each) for method, each in vars(value).items())
            yield from (named for named in methods if named[0] in chip.lines)
        if isinstance(value, enum.EnumMeta):
            yield from ((f"{dotted}.{member}", value[member]) for member in value.__members__)


def _is_touched(symbol: Symbol, touched: set[tuple[str, str]]) -> bool:
    kinds = {kind for kind, name in touched if name == symbol.name}
    if symbol.kind in ("function", "method"):
        return "call" in kinds  # the doctor reads them all
    if symbol.kind == "module":
        return any(name.startswith(f"{symbol.name}.") for _, name in touched)
    if symbol.kind == "attribute":
        return not touched.isdisjoint({("read", symbol.name), ("read", symbol.name.rpartition(".")[0])})
    return bool(kinds)
