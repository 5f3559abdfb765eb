"""An environment apart for another release of torch: ``.compat/<release>``, which nothing else uses."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".compat"
OLDEST = Version("2.13")
"""The simulated chip compiles with no older torch."""

_DISTRIBUTIONS = (ROOT, ROOT / "conformance", *sorted(each.parent for each in ROOT.glob("backends/*/pyproject.toml")))
_DESCRIPTIONS = (ROOT / "constraints.txt", *(each / "pyproject.toml" for each in _DISTRIBUTIONS))


class EnvironmentRefusedError(Exception):
    """No environment can be made of what was asked for."""


def release(text: str) -> Version:
    """Return the release of torch that ``text`` names. Raises :class:`EnvironmentRefusedError`."""
    try:
        found = Version(text)
    except InvalidVersion:
        raise EnvironmentRefusedError(f"{text!r} is not a release of torch: write one, such as TORCH=2.15.0") from None
    if found < OLDEST:
        raise EnvironmentRefusedError(
            f"torch {found} was asked for, but the simulated chip needs torch {OLDEST} or later: write TORCH={OLDEST}.0"
        )
    return found


def prepare(torch: Version) -> Path:
    """Return the Python of the environment with ``torch``; make it, or make it anew where what it holds has changed.

    It has the torch that pip gives (PyPI's brings CUDA's libraries, 6 GB in all; where an index offers it for the CPU
    alone, pip takes that), and everything else as ``constraints.txt`` pins it. Raises
    :class:`EnvironmentRefusedError`.
    """
    folder = FOLDER / str(torch)
    python, done = folder / "bin" / "python", folder / ".complete"
    wanted = hashlib.sha256(b"".join(each.read_bytes() for each in _DESCRIPTIONS)).hexdigest()
    if done.exists() and done.read_text() == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text(constraints_with(torch, _DESCRIPTIONS[0].read_text()))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(constraints)]
    for packages in (
        ["pip==26.3"],  # older ones know no dependency groups
        [f"torch=={torch}"],
        ["--group", "dev"],
        ["--no-build-isolation", *(f"--editable={each}" for each in _DISTRIBUTIONS)],
    ):
        ended = subprocess.run([*pip, *packages], cwd=ROOT, check=False)
        if ended.returncode != 0:
            raise EnvironmentRefusedError(
                f"pip could not install {' '.join(packages)} into {folder}: it says why above"
            )
    done.write_text(wanted)
    return python


def constraints_with(torch: Version, constraints: str) -> str:
    """Return the text of ``constraints`` with its pin of torch replaced."""
    lines = [line for line in constraints.splitlines() if not line.startswith("torch==")]
    return "\n".join([*lines, f"torch=={torch}"]) + "\n"
