"""Pages and messages give pip only names that are on the public index, or a place to install from."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.docs.page import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

ON_INDEX = {
    "torch",
    "lightning",
    "pytorch-lightning",
    "lightning-habana",
    "habana-pyhlml",
    "ninja",
    "pip",
    "pytest",
    "tensorboardx",
    "copier",
    "deepspeed",
    "ray",
    "torchao",
    "neural-compressor-pt",
}
"""Looked up on PyPI when it was written here."""

_PATTERNS = ("*.md", ".github/**/*.*", "docs/**/*.md", "examples/**/*.md", "core/**/*.py", "backends/**/*.py")
SOURCES = {str(path.relative_to(ROOT)): path for pattern in _PATTERNS for path in sorted(ROOT.glob(pattern))}
_JOINT = re.compile(r'"\s*\n\s*f?"')  # between two parts of one text in a program
_PART = r"[^\s,;:()`'\"#]+"
_COMMAND = re.compile(rf"pip3? install((?:[ ]+(?:'[^']*'|\"[^\"]*\"|{_PART}(?::{_PART})*))+)")
_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|\S+")


def read(path: Path) -> str:
    return _JOINT.sub("", path.read_text()) if path.suffix == ".py" else path.read_text()


def named(text: str) -> list[str]:
    """Return what each ``pip install`` of a text names; options, folders and addresses are left out."""
    found: list[str] = []
    for command in _COMMAND.finditer(text):
        words = [word.strip("'\"") for word in _WORD.findall(command[1])]
        for before, word in zip(["", *words], words, strict=False):
            if not word.startswith(("-", ".", "/", "git+")) and before not in ("--index-url", "--group"):
                found.append(canonicalize_name(Requirement(word).name))
    return found


PIP = [name for name, path in SOURCES.items() if "pip install" in read(path)]


@pytest.mark.parametrize("source", PIP)
def test_pip_is_given_names_that_are_on_the_index(source: str) -> None:
    assert set(named(read(SOURCES[source]))) <= ON_INDEX


def test_a_name_that_is_not_on_the_index_is_found() -> None:
    assert named('`pip install lightning "northbridge[lightning]>=1" ./here --index-url https://x.y torch-acme`') == [
        "lightning",
        "northbridge",
        "torch-acme",
    ]


def test_the_extras_bring_what_is_on_the_index() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought = {canonicalize_name(Requirement(each).name) for extra in extras.values() for each in extra}

    assert brought - {"northbridge"} <= ON_INDEX
