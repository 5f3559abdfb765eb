"""What a real device lacks and does wrong, because of which its plugin fails tests of the suite, and a page about it.

``python -m tests.real.faults`` writes the pages beside this file.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

HERE = Path(__file__).parent


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

    def compare(self, report: Report) -> list[str]:
        """Return a line for each difference from ``report``: of the level, of a test, or of a fault."""
        missed = [test.id for test in report.tests if test.verdict not in (Verdict.PASS, Verdict.UNKNOWN)]
        told = [prefix for fault in self.faults for prefix in fault.tests]
        earned = report.level.name if report.level else "no level"
        return [
            *([f"it earns {earned}, and not {self.level}"] if earned != self.level else []),
            *(f"no fault is told for {test}" for test in missed if not test.startswith(tuple(told))),
            *(f"it misses no test of {prefix}" for prefix in told if not any(t.startswith(prefix) for t in missed)),
        ]

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
        file.with_suffix(".md").write_text(Findings.read(file.stem).write_page())
