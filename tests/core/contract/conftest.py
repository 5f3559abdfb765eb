"""Contracts and software that tests write down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from northbridge.contract import Contract

HEAD = """\
vendor = "Toy"
packages = ["toy_chip"]
distributions = ["toy-chip"]
"""

Write = Callable[..., Contract]


def line(name: str, kind: str, signature: str = "", **fields: object) -> str:
    """Return one line of a contract, with what a line must have."""
    given: dict[str, object] = {"name": name, "kind": kind, "signature": signature, "meaning": "what it does"}
    given |= {"evidence": "read", "since": "1.0", "source": "https://toy.example/docs", **fields}
    spelt = {key: str(value).lower() if isinstance(value, bool) else f"'{value}'" for key, value in given.items()}
    return "\n".join(["", "[[symbol]]", *(f"{key} = {value}" for key, value in spelt.items() if value != "''"), ""])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a contract of these lines, and read it."""

    def write(*lines: str, head: str = HEAD) -> Contract:
        path = tmp_path / "contract.toml"
        path.write_text(head + "".join(lines))
        return Contract.read(path, backend="toy")

    return write


@pytest.fixture
def software(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Load a module ``toy_chip`` that is made of this code."""

    def software(code: str) -> ModuleType:
        module = ModuleType("toy_chip")
        exec(compile(code, "toy_chip.py", "exec", dont_inherit=True), vars(module))
        monkeypatch.setitem(sys.modules, "toy_chip", module)
        return module

    return software
