"""Findings of a run's ranks, one file for each rank and topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Findings = dict[str, list[dict[str, Any]]]
"""For each topic what every rank wrote, rank 0 first."""

_END = ".finding.json"


def write(folder: Path, topic: str, rank: int, facts: dict[str, Any]) -> None:
    """Write what ``rank`` found out about ``topic``; it has to fit into JSON.

    A file, and not a collective: what carries the findings must not be what is under test.
    """
    (folder / f"{topic}.{rank:03}{_END}").write_text(json.dumps(facts))


def read(folder: Path) -> Findings:
    """Return everything that was written into ``folder``."""
    findings: Findings = {}
    for path in sorted(folder.glob(f"*{_END}")):
        topic = path.name.removesuffix(_END).rpartition(".")[0]
        findings.setdefault(topic, []).append(json.loads(path.read_text()))
    return findings
