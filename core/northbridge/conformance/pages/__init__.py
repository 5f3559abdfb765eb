from __future__ import annotations

from pathlib import Path

from northbridge.conformance.report import Report


def write_all(report: Report, folder: Path) -> list[Path]:
    report.write(folder / "report.json")
    return [folder / "index.html"]
