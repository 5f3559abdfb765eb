"""``make compat TORCH=2.15.0`` or ``PYTHON=3.13``: run tests with another torch or Python, and write results.md here.

``python -m tests.compat torch RELEASE`` makes an environment apart, once, runs the suites in it, and replaces the
release's section of the page; ``python -m tests.compat Python RELEASE`` does the same. Exit codes: 0 all passed; 1 some
failed; 2 wrong usage.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from xml.etree import ElementTree

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version
from tests.__main__ import SUITES
from tests.tiers import TIERS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".compat"
OLDEST = {"torch": Version("2.13"), "Python": Version("3.10")}
"""The simulated chip compiles with no older torch."""

_DISTRIBUTIONS = (ROOT, ROOT / "conformance", *sorted(each.parent for each in ROOT.glob("backends/*/pyproject.toml")))
_DESCRIPTIONS = (ROOT / "constraints.txt", *(each / "pyproject.toml" for each in _DISTRIBUTIONS))


class EnvironmentRefusedError(Exception):
    """No environment can be made of what was asked for."""


@dataclass(frozen=True)
class Other:
    """What is other than in ``.venv``: a release of torch, or one of Python by its two numbers."""

    of: str
    version: Version

    def __str__(self) -> str:
        return f"{self.of} {self.version}"

    @staticmethod
    def read(of: str, text: str) -> Other:
        """Return the release of torch or of Python that ``text`` names. Raises :class:`EnvironmentRefusedError`."""
        try:
            found = Version(text)
        except InvalidVersion:
            found = None
        if found is None or (of == "Python" and len(found.release) != 2):
            example = "TORCH=2.15.0" if of == "torch" else "PYTHON=3.13"
            raise EnvironmentRefusedError(f"{text!r} is not a release of {of}: write one, such as {example}")
        if found < OLDEST[of]:
            who = "the simulated chip" if of == "torch" else "Northbridge"
            raise EnvironmentRefusedError(
                f"{of} {found} was asked for, but {who} needs {of} {OLDEST[of]} or later: "
                f"write {of.upper()}={OLDEST[of]}{'.0' if of == 'torch' else ''}"
            )
        return Other(of, found)


def prepare(other: Other) -> Path:
    """Return the Python of the environment with ``other``; make it, or make it anew where what it holds has changed.

    It has the torch that pip gives (PyPI's brings CUDA's libraries, 6 GB in all; where an index offers it for the CPU
    alone, pip takes that), and everything else as ``constraints.txt`` pins it, as far as another Python may have it.
    Raises :class:`EnvironmentRefusedError`.
    """
    folder = FOLDER / f"{other.of.lower()}-{other.version}"
    python, done = folder / "bin" / "python", folder / ".complete"
    wanted = hashlib.sha256(b"".join(each.read_bytes() for each in _DESCRIPTIONS)).hexdigest()
    if done.exists() and done.read_text() == wanted:
        return python
    interpreter = find_python(other.version) if other.of == "Python" else sys.executable
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text(constraints_with(other, _DESCRIPTIONS[0].read_text()))
    (torch,) = (line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(constraints)]
    for packages in (
        ["pip==26.3"],  # older ones know no dependency groups
        [torch],
        ["--group", "dev", *(("--group", "science") if other.of == "Python" else ())],  # the demo's digits
        ["--no-build-isolation", *(f"--editable={each}" for each in _DISTRIBUTIONS)],
    ):
        ended = subprocess.run([*pip, *packages], cwd=ROOT, check=False)
        if ended.returncode != 0:
            raise EnvironmentRefusedError(
                f"pip could not install {' '.join(packages)} into {folder}: it says why above"
            )
    done.write_text(wanted)
    return python


def find_python(version: Version) -> str:
    """Return a Python of ``version``: the newest of pyenv's, or that on ``PATH``."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda each: Version(each.parents[1].name))
    interpreter = str(found[-1]) if found else shutil.which(f"python{version}")
    if interpreter is None:
        raise EnvironmentRefusedError(
            f"Python {version} was found neither in {pyenv} nor on PATH. "
            f"Fix: install it, such as by pyenv install {version}"
        )
    return interpreter


def _required_python(package: str) -> str | None:
    try:
        return metadata(package)["Requires-Python"]
    except PackageNotFoundError:
        return None


def constraints_with(
    other: Other, constraints: str, required_python: Callable[[str], str | None] = _required_python
) -> str:
    """Return the text of ``constraints`` with its pin of torch replaced, or without what no older Python may have."""
    if other.of == "torch":
        lines = [line for line in constraints.splitlines() if not line.startswith("torch==")]
        return "\n".join([*lines, f"torch=={other.version}"]) + "\n"
    pins = [line for line in constraints.splitlines() if "==" in line and not line.startswith("#")]
    wanted = [(pin, SpecifierSet(required_python(pin.partition("==")[0]) or "")) for pin in pins]
    return "".join(f"{pin}\n" for pin, needs in wanted if needs.contains(f"{other.version}.99"))


# --- What runs

CHIP = "tests/backends/cpu_sim"
COLLECTIVE = ("collective", "ranks")
"""Words that the paths of the collectives' tests contain."""

WITH_OWN_KEY = ("hpu", "xpu")
"""The simulated chips with a dispatch key of their own. torch refuses them in a CUDA build, such as PyPI's."""

VENDORS = ("hpu", "sdaa", "npu", "xpu")
"""The simulated chips of vendors."""


@dataclass(frozen=True)
class Suite:
    """Some tests under one heading, or a command that counts as one."""

    title: str
    line: tuple[str, ...]
    """A program of the environment, and its arguments."""

    simulates: str | None = None


def _pytest(title: str, arguments: Iterable[str], simulates: str | None = None) -> Suite:
    return Suite(title, ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments), simulates)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one suite; ``failed`` are the failed tests by name, each with its error's first line."""

    title: str
    passed: int
    skipped: int
    failed: tuple[tuple[str, str], ...]


def with_torch() -> tuple[Suite, ...]:
    """Return the device, the collective and the main-job tests, as the files are today."""
    files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / CHIP).rglob("test_*.py"))
    jobs = [f"{CHIP}/test_conformance.py"]
    collective = [file for file in files if file not in jobs and any(word in file for word in COLLECTIVE)]
    device = [file for file in files if file not in (*jobs, *collective)]
    trainings = ["tests/matrix/test_matrix.py", "tests/core/lightning/strategies/test_ddp.py"]
    return (
        _pytest("device", device),
        _pytest("collective", collective),
        _pytest("main job", (*jobs, *trainings)),
        *(
            _pytest(f"main job on {chip}", ["tests/backends/simulated/test_conformance.py"], chip)
            for chip in WITH_OWN_KEY
        ),
    )


def with_python() -> tuple[Suite, ...]:
    """Return what a Python has to show: the demo, the fast tests, C0 to C2, and a training on each simulated chip."""
    fast = (each for each in SUITES if "fast" in each.tiers)
    return (
        Suite("demo", ("python", "examples/digits.py")),
        *(_pytest(f"fast tests: {each.name}", ("-m", TIERS["fast"], *each.arguments), each.simulates) for each in fast),
        Suite(
            "C0 to C2 on cpu_sim",
            ("northbridge", "conformance", "cpu_sim", "--level=C2", f"--out={FOLDER}/conformance"),
        ),
        *(
            Suite(f"doctor --train on {chip}", ("northbridge", "doctor", chip, "--train"), simulates)
            for chip, simulates in (("cpu_sim", None), *zip(VENDORS, VENDORS, strict=True))
        ),
    )


def run(suite: Suite, python: Path) -> Outcome:
    """Run one suite in the environment of ``python``; show what it says, and return what came of it."""
    program, *arguments = suite.line
    environ = {**os.environ, **({"NORTHBRIDGE_SIMULATE": suite.simulates} if suite.simulates else {})}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        if "pytest" in suite.line:
            arguments.append(f"--junitxml={report}")
        else:
            environ["NORTHBRIDGE_DETECT_TIMEOUT"] = "600"  # who asks first for the cards compiles the chip
        said: list[str] = []
        command = [str(python.with_name(program)), *arguments]
        pipe, to_stdout = subprocess.PIPE, subprocess.STDOUT
        with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=pipe, stderr=to_stdout, text=True) as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                said = [*said[-19:], line.strip()]
        if report.exists():
            return read(suite.title, report.read_text())
    if process.returncode == 0 and "pytest" not in suite.line:
        counted = sum(map(int, re.findall(r"granted, (\d+) tests ran", "\n".join(said))))  # by the conformance suite
        return Outcome(suite.title, counted or 1, 0, ())
    last = next((line for line in reversed(said) if line), "nothing")
    return Outcome(suite.title, 0, 0, ((suite.title, f"ended with {process.returncode}: {last}"),))


def read(title: str, report: str) -> Outcome:
    """Return the outcome that pytest's XML ``report`` tells."""
    cases = [
        (f"{case.get('classname', '')}::{case.get('name', '')}", {each.tag: each for each in case})
        for case in ElementTree.fromstring(report).iter("testcase")
    ]
    endings = [(name, found.get("failure", found.get("error"))) for name, found in cases]
    failed = {name: (end.get("message") or "").partition("\n")[0] for name, end in endings if end is not None}
    skipped = sum("skipped" in found for _, found in cases)
    # A test that fails, and then its fixture, is there twice.
    return Outcome(title, len({name for name, _ in cases} - failed.keys()) - skipped, skipped, tuple(failed.items()))


# --- The page

PAGE = Path(__file__).with_name("results.md")
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
        text = PAGE.read_text()
        written = {**sections(text), other: section(versions, date.today(), outcomes, to_come)}
        PAGE.write_text(page(text, written))  # each time: somebody may end it before the last
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


def page(text: str, written: Mapping[Other, str]) -> str:
    """Return the page ``text`` with other sections: each torch, then each Python, the newest release first."""
    ordered = sorted(written, key=lambda each: (each.of, each.version), reverse=True)
    parts = [f"{_SECTION}{other}\n\n{written[other]}\n" for other in ordered]
    return text.partition(_SECTION)[0] + "".join(parts)


def _inline(said: str) -> str:
    return f"`{said[:160]}`".replace("``", "") if said else "no message"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
