"""Reports of figures that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def figure(value: float, **more: Any) -> dict[str, Any]:
    """Return a ratio, or what ``more`` makes of it."""
    ends = dict.fromkeys(("lower", "upper", "first_quartile", "third_quartile"), value)
    made_up = {"unit": "×", **ends, "goal": 1.05, "verdict": "met", "missed": "", "values": [value], "sides": []}
    return {"what": "sorting: ours ÷ theirs", "value": value, "parts": {}, **made_up, **more}


def written(folder: Path, *figures: dict[str, Any]) -> Path:
    """Write a report, and return its file."""
    report = {
        "date": "2026-11-22T08:00:00+00:00",
        "commit": "0123456",
        "quick": False,
        "machine": {"cpu": "a CPU", "cores": 2, "load_before": 0.1},
        "versions": {"torch": "2.13.0+cpu"},
        "figures": {str(number): each for number, each in enumerate(figures)},
    }
    file = folder / "report.json"
    file.write_text(json.dumps(report))
    return file
