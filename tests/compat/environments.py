"""An environment apart for another torch or another Python: ``.compat/torch-2.15.0``, which nothing else uses."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

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
