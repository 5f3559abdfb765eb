"""The faults that the check of words finds in a repository with one of each kind; names of files and classes."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from tests.docs.test_architecture import PACKAGES, ROOT
from tests.words import main

step, strict, counterpart, child = ["duty", "harsh", "twin", "heir"]  # single words in quotes are not checked


def test_words_finds_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "page.md").write_text(
        "- Do not refuse.\n- " + "word " * 31 + f"A {strict}\nmode\n```text\n{counterpart}\n```\n"
    )
    core, message = tmp_path / "core" / "a.py", f'raise ValueError(f"the {step} of {{rank}} {"x" * 106}")'
    core.write_text(f'"""A {counterpart}."""  # {child}\ndef refuse_it(): {message}\ndef test_{56 * "x"}(): 0\n')

    assert main(tmp_path) == 1

    *faults, lengths = capsys.readouterr().out.splitlines()
    assert [fault.split(": write")[0].rsplit(": word")[0] for fault in faults] == [
        "core/a.py:2: 'refuse'",
        f"core/a.py:3: a name of 61 characters: test_{'x' * 56}",
        f"core/a.py:1: '{counterpart}'",
        f"core/a.py:2: '{step}'",
        f"core/a.py:1: '{child}'",
        "page.md:2: a sentence of 34 words",
        f"page.md:2: '{strict}'",
    ]
    assert lengths == "1 messages: median 123 characters, 90th percentile 123; 7 faults"


def test_files_are_named_by_nouns() -> None:
    nouns = {"grading", "lightning", "multiprocessing", "pickling", "recording", "sharding", "training", "unpickling"}
    named = [file for package in PACKAGES for file in package.rglob("*") if file.suffix in (".py", ".cpp", ".h")]

    last_words = {file.relative_to(ROOT): file.stem.rpartition("_")[2] for file in named}
    gerunds = [str(file) for file, word in last_words.items() if word.endswith("ing") and word not in nouns]

    assert gerunds == [], "name the thing that the file is about, not what it does"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_class_names_are_unique(package: Path) -> None:
    places = defaultdict(list)
    for file in package.rglob("*.py"):
        for name in re.findall(r"^ *class (\w+)[(:]", file.read_text(), flags=re.MULTILINE):
            places[name].append(str(file.relative_to(ROOT)))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
