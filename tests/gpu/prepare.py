"""``make gpu-wheels``: put the wheels for a machine with a GPU and no network into ``.gpu``.

They are Northbridge, its suite and simulated chip, ``examples/vendor_cuda``, and what these need, in the versions that
are installed here. torch is left out, with what it alone needs: the machine has its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
OURS = (ROOT, ROOT / "conformance", ROOT / "backends" / "cpu_sim", ROOT / "examples" / "vendor_cuda")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Older ones need distributions that are not installed here."""

MOST_BYTES = 60 << 20
_GLIBC = (28, 27, 24, 17)


def find_pins(python: str) -> dict[str, str]:
    """Return the distributions that ``northbridge-conformance`` needs under ``python``, with the versions here."""
    marks = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    found: dict[str, set[str]] = {}
    ahead = [Requirement("northbridge-conformance")]
    while ahead:
        wanted = ahead.pop()
        name, extras = canonicalize_name(wanted.name), {"", *wanted.extras}
        if name == "torch" or extras <= found.get(name, set()):
            continue
        found[name] = found.get(name, set()) | extras
        needs = [Requirement(line) for line in distribution(name).requires or ()]
        ahead += [
            each
            for each in needs
            if each.marker is None or any(each.marker.evaluate({**marks, "extra": extra}) for extra in extras)
        ]
    return {name: distribution(name).version for name in sorted(found) if not name.startswith("northbridge")}


def build(folder: Path) -> None:
    """Build the wheels of this repository into ``folder``."""
    for source in OURS:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.absolute())]
        subprocess.run(command, cwd=source, stdout=subprocess.DEVNULL, check=True)


def download(folder: Path, python: str, machine: str) -> None:
    """Download the wheels of :func:`find_pins` for ``python`` on ``machine`` into ``folder``."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC] + [f"manylinux2014_{machine}"]
    options = [*("--quiet", "--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", python)]
    options += [part for name in platforms for part in ("--platform", name)]
    pins = [f"{name}=={version}" for name, version in find_pins(python).items()]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, "-d", str(folder), *pins], check=True)


def main(arguments: list[str]) -> int:
    """Fill the folder, print its size, and return the exit code."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--python", default="3.12", choices=PYTHONS, help="the other machine's Python")
    options.add_argument("--machine", default="x86_64", help="the other machine's processor, as `uname -m` prints it")
    options.add_argument("--folder", type=Path, default=ROOT / ".gpu")
    asked = options.parse_args(arguments)
    asked.folder.mkdir(exist_ok=True)
    for wheel in asked.folder.glob("*.whl"):
        wheel.unlink()  # pip does not install two versions at once
    build(asked.folder)
    download(asked.folder, asked.python, asked.machine)
    sizes = [wheel.stat().st_size for wheel in asked.folder.glob("*.whl")]
    said = f"{len(sizes)} wheels for Python {asked.python} in {asked.folder}, {sum(sizes) / (1 << 20):.1f} MiB"
    if sum(sizes) > MOST_BYTES:
        print(f"make gpu-wheels: {said}, but at most {MOST_BYTES >> 20} MiB are carried", file=sys.stderr)
        return 1
    print(said)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
