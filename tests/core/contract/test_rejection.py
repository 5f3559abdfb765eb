"""Software that the core rejects after loading, quickly and without acquiring a card."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.core.contract.conftest import HEAD, Write, line
from tests.core.contract.test_check import CODE

from northbridge.contract import reject_broken
from northbridge.errors import ContractError

Software = Callable[[str], ModuleType]


def test_software_as_the_contract_says_passes(write: Write, software: Software) -> None:
    module = software(CODE)
    contract = write(
        line("toy_chip", "module"),
        line("toy_chip.count", "function", "() -> int", **{"try": True}),
        line("toy_chip.name", "function", "(device=None) -> str", acquires=True, **{"try": True}),
        line("toy_chip.Stream.wait", "method", "(event)"),
        line("toy_chip.handle", "attribute", acquires=True),
        line("toy_chip.native", "function", "(a, b)"),
        line("toy_chip.count_all", "absent"),
        line("TOY_CARDS", "environment"),
        line("it counts", "behaviour"),
    )

    reject_broken(contract)

    assert module.taken == []


def test_missing_symbol_is_refused_with_its_line(write: Write, software: Software) -> None:
    software(CODE)
    contract = write(
        line("toy_chip", "module"),
        line("toy_chip.graph", "function", "(stream=None)", evidence="inferred", since="1.18"),
    )

    with pytest.raises(ContractError) as raised:
        reject_broken(contract)

    assert str(raised.value) == (
        "backend 'toy' needs toy_chip.graph(stream=None), and toy_chip has no 'graph'; found no toy-chip."
        " contract.toml line 13 (inferred, https://toy.example/docs) is wrong. Fix: run `northbridge doctor"
        " toy`, and install a release of Toy's software that has it (1.18 is known to), or tell the backend's"
        " author"
    )
    assert raised.value.backend == "toy"


def test_other_signature_is_refused_and_more_are_counted(write: Write, software: Software) -> None:
    software(CODE)
    contract = write(
        line("toy_chip.count", "function", "(device=None) -> int", evidence="inferred", since=""),
        line("toy_chip.graph", "function", "()"),
        head=HEAD.replace("toy-chip", "pydantic"),
    )

    with pytest.raises(ContractError) as raised:
        reject_broken(contract)

    assert (
        "needs toy_chip.count(device=None) -> int, and it has no parameter 'device': () -> int; found pydantic 2"
        in (str(raised.value))
    )
    assert "line 5 (inferred" in str(raised.value)
    assert "software that has it, or tell" in str(raised.value)


def test_what_some_releases_lack_is_not_refused(write: Write, software: Software) -> None:
    software(CODE)

    reject_broken(write(line("toy_chip.graph", "function", "()", required=False)))


def test_a_module_not_imported_is_left_alone(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_management.py").write_text("raise OSError('no driver')")
    monkeypatch.syspath_prepend(tmp_path)

    reject_broken(write(line("toy_management", "module"), line("toy_management.count", "function", "()")))

    assert "toy_management" not in sys.modules


def test_a_module_that_is_not_installed_is_refused(write: Write) -> None:
    with pytest.raises(ContractError, match="needs toy_management, and there is no module 'toy_management'; found no"):
        reject_broken(write(line("toy_management", "module")))


def test_a_stand_in_that_watches_its_attributes_sees_no_reading(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Watched(ModuleType):
        def __getattribute__(self, name: str) -> object:
            seen.append(name)
            return super().__getattribute__(name)

    module = Watched("toy_chip")
    module.count = lambda: 2  # type: ignore[attr-defined]  # a module takes any attribute
    monkeypatch.setitem(sys.modules, "toy_chip", module)
    seen.clear()

    reject_broken(write(line("toy_chip.count", "function", "()")))

    assert seen == []
