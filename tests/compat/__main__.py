"""``make compat TORCH=2.15.0`` or ``PYTHON=3.13``: run tests with another torch or Python; write docs/compat.md.

``python -m tests.compat torch RELEASE`` makes an environment apart, once, runs the suites in it, and replaces the
release's section of the page; ``python -m tests.compat Python RELEASE`` does the same. Exit codes: 0 all passed; 1 some
failed; 2 wrong usage.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from packaging.version import Version
from tests.compat.environments import ROOT, EnvironmentRefusedError, Other, prepare
from tests.compat.suites import Outcome, run, with_python, with_torch

PAGE = ROOT / "docs" / "compat.md"
_SECTION = "\n## "
_LOOK = (
    "import platform, torch, lightning;"
    "print(f'torch {torch.__version__}, Lightning {lightning.__version__}, Python {platform.python_version()}, "
    "on {platform.system()}')"
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    try:
        if len(arguments) != 2:
            raise EnvironmentRefusedError(
                "say which release of torch or of Python: make compat TORCH=2.15.0, or make compat PYTHON=3.13"
            )
        other = Other.read(*arguments)
        python = prepare(other)
    except EnvironmentRefusedError as error:
        print(f"make compat: {error}", file=sys.stderr)
        return 2
    versions, wanted = _versions(python), with_torch() if other.of == "torch" else with_python()
    outcomes: list[Outcome] = []
    for suite in wanted:
        outcomes.append(run(suite, python))
        to_come = [each.title for each in wanted[len(outcomes) :]]
        written = sections(PAGE.read_text()) if PAGE.exists() else {}
        written[other] = section(versions, date.today(), outcomes, to_come)
        PAGE.write_text(page(written))  # each time: somebody may end it before the last
    print(f"wrote {PAGE}")
    return int(any(outcome.failed for outcome in outcomes))


def _versions(python: Path) -> str:
    looked = subprocess.run([str(python), "-c", _LOOK], stdout=subprocess.PIPE, text=True, check=True)
    return looked.stdout.strip()


def section(versions: str, on: date, outcomes: Sequence[Outcome], to_come: Sequence[str] = ()) -> str:
    """Return what the page says of one release, below its heading; ``to_come`` are the suites not run yet."""
    rows = [f"| {each.title} | {each.passed} | {each.skipped} | {len(each.failed)} |" for each in outcomes]
    failures = [f"- `{name}`: {_inline(said)}" for each in outcomes for name, said in each.failed]
    return "\n".join(
        [
            f"On {on:%Y-%m-%d}, with {versions}.",
            "",
            "| tests | passed | skipped | failed |",
            "|---|---|---|---|",
            *rows,
            *(f"| {title} | not run | | |" for title in to_come),
            *(["", "What failed:", "", *failures] if failures else []),
        ]
    )


def sections(text: str) -> dict[Other, str]:
    """Return the sections of a page, by release."""
    found = {}
    for part in text.split(_SECTION)[1:]:
        heading, _, body = part.partition("\n")
        of, version = heading.split()
        found[Other(of, Version(version))] = body.strip()
    return found


def page(written: Mapping[Other, str]) -> str:
    """Return the page of docs: each torch, then each Python, the newest release first."""
    ordered = sorted(written, key=lambda each: (each.of, each.version), reverse=True)
    parts = [f"{_SECTION}{other}\n\n{written[other]}\n" for other in ordered]
    return f"""# Releases of torch and of Python

`make compat TORCH=<release>` writes one section. It makes an environment in `.compat/`, with that torch from pip
and everything else from `constraints.txt`. It compiles the simulated chip there and runs:

- device: operations, memory, random numbers, autograd, streams, the module, and how the chip is compiled and loaded;
- collective: simccl, point to point and sharded training, on several ranks;
- main job: the suite that every chip must pass, and trainings with `Trainer` and `Fabric` whose weights have to equal,
  to the bit, those of Lightning's own CPU accelerator;
- main job on hpu and on xpu: the same suite on the simulated Gaudi and Intel GPU. PyPI's torch is a CUDA build, which
  alone would refuse these two. `.ci/run` has the CPU build.

`make compat PYTHON=<release>` does the same for a Python, pyenv's or the one on `PATH`. Its torch is the pinned one as
PyPI has it, a CUDA build. Where a pinned package does not support that Python, pip chooses another release. It runs the
demo, the tests of `make test-fast`, and the conformance suite's levels C0 to C2 on the simulated chip. `northbridge
doctor --train` then trains a few steps on each simulated chip, on one card and on two.

The releases below were tested; every change is tested with torch 2.13.0 and Python 3.11. Releases of torch between
them, and later ones that compile, are expected to work. The simulated chip needs Linux and torch 2.13 or later;
elsewhere it raises an error of one line. The rest of Northbridge is expected to work from torch 2.4 on, which was read
in the code, not tested.
{"".join(parts)}"""


def _inline(said: str) -> str:
    return f"`{said[:160]}`".replace("``", "") if said else "no message"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
