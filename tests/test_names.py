"""The names of the product's files and classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from tests.test_import_graph import PACKAGES, ROOT

NOUNS = {"grading", "lightning", "multiprocessing", "pickling", "recording", "sharding", "training", "unpickling"}
"""The last words of files that end in -ing and are nouns of the field."""


def test_files_are_named_by_nouns() -> None:
    named = [file for package in PACKAGES for file in package.rglob("*") if file.suffix in (".py", ".cpp", ".h")]

    last_words = {file.relative_to(ROOT): file.stem.rpartition("_")[2] for file in named}
    gerunds = [str(file) for file, word in last_words.items() if word.endswith("ing") and word not in NOUNS]

    assert gerunds == [], "name the thing that the file is about, not what it does"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_class_names_are_unique(package: Path) -> None:
    places = defaultdict(list)
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
