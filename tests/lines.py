"""Compare the lines of two commits: ``python -m tests.lines BEFORE HEAD``.

Counted are all lines, empty ones too, of Python, of C++ and its headers, and of the templates of pages. It ends with 1
where core, suite and backends together have not become at least 5 % smaller, or the tests have grown.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import PurePosixPath

SUFFIXES = (".py", ".cpp", ".h", ".html", ".css", ".js")
PRODUCT = ("core", "conformance", "backends")
FOLDERS = (*PRODUCT, "tests")


def count(commit: str) -> Counter[str]:
    """Return the lines of each folder at ``commit``, which need not be checked out."""
    nothing = _git("hash-object", "-t", "tree", "/dev/null").strip()
    lines: Counter[str] = Counter()
    for row in _git("diff", "--numstat", "--no-renames", "-z", nothing, commit, "--", *FOLDERS).split("\0")[:-1]:
        added, _, name = row.split("\t")
        if name.endswith(SUFFIXES):
            lines[PurePosixPath(name).parts[0]] += int(added)
    return lines


def main(before: str, after: str) -> int:
    """Print the table; return 0 where the lines are as few as they are to be."""
    old, new = count(before), count(after)
    for lines in (old, new):
        lines["product"] = sum(lines[name] for name in PRODUCT)
    print(f"{'lines':<18}{before:>12.10}{after:>12.10}{'change':>10}")
    for name in (*FOLDERS, "product"):
        change = f"{new[name] / old[name] - 1:+.1%}" if old[name] else "new"
        print(f"{name:<18}{old[name]:>12}{new[name]:>12}{change:>10}")
    is_smaller = new["product"] <= 0.95 * old["product"]
    return 0 if is_smaller and new["tests"] <= old["tests"] else 1


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else __doc__)
