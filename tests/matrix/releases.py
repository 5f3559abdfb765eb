"""The releases of Lightning in the matrix, and how one replaces the installed one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "matrix"

PUBLISHED = (
    "2.4.0",
    "2.5.0",
    "2.5.0.post0",
    "2.5.1",
    "2.5.1.post0",
    "2.5.2",
    "2.5.3",
    "2.5.4",
    "2.5.5",
    "2.5.6",
    "2.6.0",
    "2.6.1",
    "2.6.4",
    "2.6.5",
    "2.6.6",
)
"""Every published release from 2.4.0 to 2.6.6 but 2.6.2 and 2.6.3, which were malicious uploads."""


@dataclass(frozen=True)
class Pair:
    """One environment: the two distributions, which may differ in version."""

    lightning: str
    pytorch_lightning: str
    named: str | None = None
    """The version that both say they have, where it is another than theirs."""

    def __str__(self) -> str:
        if self.named:
            return f"{self.lightning} named {self.named}"
        if self.lightning == self.pytorch_lightning:
            return self.lightning
        return f"lightning {self.lightning}, pytorch-lightning {self.pytorch_lightning}"


OLDEST, NEWEST = Pair(PUBLISHED[0], PUBLISHED[0]), Pair(PUBLISHED[-1], PUBLISHED[-1])

PAIRS = (
    *(Pair(version, version) for version in PUBLISHED),
    Pair(PUBLISHED[0], PUBLISHED[-1]),
    Pair(PUBLISHED[-1], PUBLISHED[0]),
    Pair(PUBLISHED[-1], PUBLISHED[-1], named="2.7.0"),
)
"""Every row of the matrix. The last stands for the next minor release, of which no source can be had."""


def lay_over(pair: Pair) -> Path:
    """Return a folder that holds the two distributions and nothing else; put it on ``PYTHONPATH``.

    They are pure Python, so a few MB suffice, and what they depend on stays what ``constraints.txt`` pins.
    """
    folder = CACHE / "+".join(filter(None, (pair.lightning, pair.pytorch_lightning, pair.named)))
    done = folder / ".complete"
    if not done.exists():
        wanted = [f"lightning=={pair.lightning}", f"pytorch-lightning=={pair.pytorch_lightning}"]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([*pip, *wanted], check=True)
        if pair.named:
            _rename(folder, pair.lightning, pair.named)
        done.touch()
    return folder


def _rename(folder: Path, version: str, named: str) -> None:
    """Let the distributions in ``folder`` say that their version is ``named``: in their metadata and when imported."""
    for information in folder.glob("*.dist-info"):
        metadata = information / "METADATA"
        metadata.write_text(metadata.read_text().replace(f"\nVersion: {version}\n", f"\nVersion: {named}\n", 1))
        information.rename(information.with_name(information.name.replace(version, named)))
    for file in folder.rglob("version.info"):
        file.write_text(f"{named}\n")
