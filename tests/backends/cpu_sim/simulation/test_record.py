"""The record of what is touched of a vendor's software; the vendor is a made-up one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.scripts import run_python

from northbridge_cpu_sim import Record


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that takes the record, which may be at home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(Record.VARIABLE, "~/record")
    return tmp_path / "record"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the vendor's, with a function and a number."""
    module = ModuleType("acme.core")
    vars(module).update(double=lambda number: 2 * number, number=1)
    monkeypatch.setitem(sys.modules, "acme", ModuleType("acme"))
    monkeypatch.setitem(sys.modules, "acme.core", module)
    return module


def lines(folder: Path) -> list[str]:
    return (folder / Record.FILE).read_text().splitlines()


def test_reads_and_calls_are_recorded_once(folder: Path, stand_in: ModuleType) -> None:
    Record("acme", names={"acme.core": "torch.acme"}).watch("acme.core")

    assert [stand_in.double(2) for _ in range(3)] == [4, 4, 4]
    assert stand_in.double is stand_in.double
    assert not hasattr(stand_in, "no_such_thing")
    assert lines(folder) == ["read torch.acme.double", "call torch.acme.double", "read torch.acme.no_such_thing"]


def test_a_table_of_stand_ins_is_watched(folder: Path, stand_in: ModuleType) -> None:
    table = Record("acme").watched({"acme.core": {"double": abs}, "acme": lambda: {"core": stand_in}})
    names = [each() for each in table.values() if callable(each)]
    _ = stand_in.number

    assert names == [{"double": abs}, {"core": stand_in}]
    assert lines(folder) == ["read acme.core.number"]


def test_what_the_simulation_reads_itself_is_not_written_down(folder: Path, stand_in: ModuleType) -> None:
    Record(__name__).watch("acme.core")

    assert stand_in.double(2) == 4
    assert not folder.exists()


def test_what_a_backend_reads_is_told_apart(folder: Path, stand_in: ModuleType) -> None:
    Record("acme", "northbridge_acme.simulated").watch("acme.core")
    exec("from acme.core import number", {"__name__": "northbridge_acme.device"})
    exec("from acme.core import double", {"__name__": "northbridge_conformance.runs.hosts"})

    assert lines(folder) == ["read acme.core.number", "rely acme.core.number", "read acme.core.double"]


def test_variables_and_replacements_are_recorded(
    folder: Path, stand_in: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_MODE", "1")
    record = Record("acme")
    record.set_variable("ACME_MODE", "2")
    record.put("acme.core.double", lambda number: number)

    assert record.variable("ACME_MODE") == os.environ["ACME_MODE"] == "2"
    assert stand_in.double(2) == 2
    assert lines(folder) == ["write ACME_MODE", "read ACME_MODE", "call acme.core.double"]


def test_without_the_variable_nothing_is_watched(monkeypatch: pytest.MonkeyPatch, stand_in: ModuleType) -> None:
    monkeypatch.delenv(Record.VARIABLE, raising=False)
    record, double = Record("acme"), stand_in.double
    record.watch("acme.core")
    record.put("acme.core.double", double)

    assert record.watched(table := {"acme.core": {"double": double}}) is table
    assert type(stand_in) is ModuleType
    assert stand_in.double is double


def test_it_costs_neither_torch_nor_pydantic() -> None:
    program = "import sys; from northbridge_cpu_sim import Record; print(*sys.modules.keys() & {'torch', 'pydantic'})"

    assert run_python("-c", program).stdout == "\n"
