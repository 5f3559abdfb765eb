"""What a real device lacks and does wrong, because of which its plugin fails tests of the suite, and a page about it.

``python -m tests.real.faults`` writes the pages in docs/reports.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "docs" / "reports"


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a file says."""
    return tomllib.loads(file.read_text())


@dataclass(frozen=True)
class Fault:
    """One fault of a device."""

    what: str
    code: str
    """The program that shows it, of at most ten lines."""

    prints: str
    """A part of what the program prints, or of its error."""

    tests: tuple[str, ...] = ()
    """The prefixes of the ids of the tests that fail because of it; none where the plugin denies what it lacks."""

    def misses(self, test: str) -> bool:
        """True if the test with this id fails because of this fault."""
        return test.startswith(self.tests)


@dataclass(frozen=True)
class Findings:
    """The level that a device earns, and its faults."""

    title: str
    level: str
    head: str
    faults: tuple[Fault, ...]

    @classmethod
    def read(cls, device: str) -> Findings:
        """Return what the device's file beside this one says."""
        found = read_toml(HERE / f"{device}.toml")
        faults = (
            Fault(**{**row, "code": row["code"].strip(), "tests": tuple(row.get("tests", ()))})
            for row in found.get("fault", ())
        )
        return cls(found["title"], found["level"], found["head"].strip(), tuple(faults))

    def write_page(self) -> str:
        """Return the page about the device."""
        parts = [f"# {self.title}\n\n{self.head}\n"]
        for fault in self.faults:
            tests = "\n".join(f"- `{test}`" if test.endswith("]") else f"- `{test}…`" for test in fault.tests)
            said = "`, `".join(fault.prints.splitlines())
            shown = f"## {fault.what}\n\n```python\n{fault.code}\n```\n\nIt says `{said}`.\n\n"
            parts.append(shown + (tests or "A claim of the plugin says so.") + "\n")
        return "\n".join(parts)


if __name__ == "__main__":
    for file in HERE.glob("*.toml"):
        (PAGES / f"{file.stem}.md").write_text(Findings.read(file.stem).write_page())
