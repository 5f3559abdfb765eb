"""``python -m tools.changed_lines``: where a change is made, and which tests are run for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.changed_lines import Change, Reached, mark

CODE = """\
@decorated(
    1,
)
def first(count: int = 2) -> int:
    if count == 3:
        return 4
    elif count == 5:
        return sum(
            [6],
        )
    else:
        return 7
"""

CHANGE = Change(
    0, "core/northbridge/first.py", above="    if count == 3:", line="return 4", below="elif count == 5:", becomes=""
)


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("    1,", "@decorated("),
        ("def first(count: int = 2) -> int:", "@decorated("),
        ("        return 4", "        return 4"),
        ("    elif count == 5:", "    if count == 3:"),
        ("            [6],", "        return sum("),
        ("        return 7", "        return 7"),
    ],
)
def test_the_mark_stands_before_the_statement(line: str, before: str) -> None:
    place = next(place for place, each in enumerate(CODE.splitlines()) if each == line)
    marked = mark(CODE, [(place, 8)])
    compile(marked, "first.py", "exec")
    added = next(place for place, each in enumerate(marked.splitlines()) if each.endswith(".reach(8)"))
    assert marked.splitlines()[added + 1] == before


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"core/northbridge/first.py": CODE}, ("core/northbridge/first.py", 5)),
        ({"core/northbridge/first.py": "# more\n" + CODE}, ("core/northbridge/first.py", 6)),
        ({"core/northbridge/first.py": "", "backends/acme/second.py": CODE}, ("backends/acme/second.py", 5)),
        ({"core/northbridge/first.py": CODE.replace("return 4", "return 9")}, None),
        ({"core/northbridge/first.py": CODE + CODE.replace("first", "second")}, None),
        ({"core/northbridge/first.py": "return 4\n"}, None),
    ],
    ids=["there", "further down", "in another file", "gone", "twice", "elsewhere"],
)
def test_a_change_is_found_by_the_lines_around_it(
    files: dict[str, str], found: tuple[str, int] | None, tmp_path: Path
) -> None:
    for name, code in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(code)
    assert CHANGE.find(tmp_path) == (found and (tmp_path / found[0], found[1]))


def test_short_tests_run_first_and_then_their_files(tmp_path: Path) -> None:
    (tmp_path / "reached.tsv").write_text("3\t a.py::slow\n3\t a.py::quick\n3\thpu b.py::other\n3\t\n4\t c.py::more\n")
    (tmp_path / "seconds.tsv").write_text(" a.py::slow\t9\n a.py::quick\t1\nhpu b.py::other\t2\n")
    reached = Reached.read(tmp_path)
    assert list(reached.runs(3)) == [
        ("hpu", ["b.py::other"]),
        ("", ["a.py::quick", "a.py::slow"]),
        ("", ["a.py"]),
        ("hpu", ["b.py"]),
    ]
    assert not list(reached.runs(5))
