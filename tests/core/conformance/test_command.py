"""What a user reads who asks for a proof in a wrong way, or of what is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from northbridge.conformance.sources import digest_sources

NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name the backend whose conformance is asked for, or a report with --verify"),
        (("cpu_sim", "--verify", "report.json"), "name the backend whose conformance is asked for"),
        (("cpu_sim", "--level", "C7"), "--level takes C0 to C4, found 'C7'"),
        (("cpu_simm",), "no backend 'cpu_simm' is installed"),
        (("--verify", "nothing.json"), "was to be a report of `northbridge conformance`; it could not be read"),
        (("cpu_sim", "--out", "/proc/nowhere"), "the report was to be written into /proc/nowhere, which cannot be"),
    ],
)
def test_wrong_usage_is_told_and_ends_with_2(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    asked = subprocess.run(
        [NORTHBRIDGE, "conformance", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert asked.returncode == 2, asked.stderr
    assert words in " ".join(asked.stderr.replace("│", " ").split())
    assert "Traceback" not in asked.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_suites_digest_is_that_of_its_files() -> None:
    assert digest_sources() == digest_sources()
    assert len(digest_sources()) == 64
