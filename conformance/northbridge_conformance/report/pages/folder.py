"""The folder that a run of the suite leaves: the report, and the pages made of it."""

from __future__ import annotations

from pathlib import Path

from northbridge.errors import ReportError
from northbridge.lightning.plugins.atomic_write import draft_of
from northbridge_conformance.report.pages.html import render_page
from northbridge_conformance.report.pages.junit import render_junit
from northbridge_conformance.report.pages.markdown import render_markdown
from northbridge_conformance.report.pages.torch_exclusions import list_exclusions
from northbridge_conformance.report.report import Report


def write_all(report: Report, folder: Path) -> list[Path]:
    """Write the report and every page of it into ``folder``, and return the files.

    Each file appears when it is complete. Raises :class:`ReportError` if one cannot be written.
    """
    texts = {
        "report.json": report.to_json(),
        "index.html": render_page(report),
        "report.md": render_markdown(report),
        "junit.xml": render_junit(report),
        "torch_exclusions.json": list_exclusions(report).to_json(),
    }
    return [write_page(folder / name, text) for name, text in texts.items()]


def write_page(path: Path, text: str) -> Path:
    """Write ``text`` completely or not at all; raises :class:`ReportError` if that fails."""
    try:
        with draft_of(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise ReportError(f"cannot write {path}: {why}. Fix: use another folder") from None
    return path
