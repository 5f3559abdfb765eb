"""Findings of a run's ranks, one file for each rank and topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Findings = dict[str, list[dict[str, Any]]]
"""Every rank's findings for each topic, rank 0 first."""

_END = ".finding.json"


def write(folder: Path, topic: str, rank: int, facts: dict[str, Any]) -> None:
    """Write the findings of ``rank`` about ``topic``; they must fit into JSON.

    A file and not a collective, because the collectives themselves are under test.
    """
    (folder / f"{topic}.{rank:03}{_END}").write_text(json.dumps(facts))


def read(folder: Path) -> Findings:
    """Return all findings in ``folder``."""
    findings: Findings = {}
    for path in sorted(folder.glob(f"*{_END}")):
        topic = path.name.removesuffix(_END).rpartition(".")[0]
        findings.setdefault(topic, []).append(json.loads(path.read_text()))
    return findings
