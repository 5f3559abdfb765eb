"""The lines of two commits of a scratch repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.lines import main


@pytest.mark.parametrize(
    ("core", "tests", "code"), [(95, 20, 0), (96, 20, 1), (90, 21, 1)], ids=["smaller", "too large", "tests grew"]
)
def test_lines_compares(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    core: int,
    tests: int,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    commit({"core/a.py": 60, "backends/x/csrc/a.cpp": 40, "backends/x/a.toml": 9, "tests/a b.py": 20}, "before")
    commit({"core/a.py": core - 40, "core/b.md": 50, "tests/a b.py": tests}, "after")

    assert main("before", "after") == code

    rows = [line.rsplit(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["lines", "before", "after", "change"]
    assert rows[3] == ["backends", "40", "40", "+0.0%"]
    assert rows[4] == ["tests", "20", str(tests), f"{tests / 20 - 1:+.1%}"]
    assert rows[5] == ["product", "100", str(core), f"{core / 100 - 1:+.1%}"]


def commit(lines: dict[str, int], tag: str) -> None:
    """Write files of so many lines into the repository of this folder."""
    for name, number in lines.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x\n" * number)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", tag), ("tag", tag)):
        subprocess.run(["git", *command], check=True)
