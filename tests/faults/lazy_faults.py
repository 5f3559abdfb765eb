"""The faults of torch's own lazy device, because of which its plugin fails tests of the suite.

``python -m tests.faults.lazy_faults`` writes docs/reports/lazy.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

FAULTS = Path(__file__).parents[1] / "vendors" / "lazy" / "faults.toml"
PAGE = Path(__file__).parents[2] / "docs" / "reports" / "lazy.md"
LEVEL = "C0"
"""The level that the plugin earns."""

_HEAD = f"""# torch's own lazy device

torch has a device of type `lazy`, whose TorchScript backend computes on the CPU. It is not CUDA-like: it has no module, no
generator and no memory behind its storages, and a module that moves to it gets new parameters. Its plugin, `tests/vendors/lazy`
in the repository, earns **{LEVEL}**. Each test up to C2 that it does not pass is listed under the fault of torch that causes this.

Each reproduction is a whole program. `make test-all` runs them, and the suite up to C2. This page is written by
`python -m tests.faults.lazy_faults`.
"""  # noqa: E501 - lines of a page


@dataclass(frozen=True)
class LazyFault:
    """One fault of the device."""

    what: str
    code: str
    """The program that shows it."""

    prints: str
    """A part of what the program prints, or of its error."""

    tests: tuple[str, ...]
    """The prefixes of the ids of the tests that fail because of it."""

    def misses(self, test: str) -> bool:
        """True if the test with this id fails because of this fault."""
        return test.startswith(self.tests)


def read_faults() -> tuple[LazyFault, ...]:
    """Return what ``faults.toml`` says."""
    rows = tomllib.loads(FAULTS.read_text())["fault"]
    return tuple(LazyFault(**{**row, "code": row["code"].strip(), "tests": tuple(row["tests"])}) for row in rows)


def write_page() -> str:
    """Return the page about the faults."""
    parts = [_HEAD]
    for fault in read_faults():
        tests = "\n".join(f"- `{test}`" if test.endswith("]") else f"- `{test}…`" for test in fault.tests)
        parts.append(f"## {fault.what}\n\n```python\n{fault.code}\n```\n\nIt says `{fault.prints}`.\n\n{tests}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(write_page())
