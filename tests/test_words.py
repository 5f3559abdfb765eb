"""The faults that the check of words finds in a repository with one of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
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
