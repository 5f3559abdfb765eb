"""Render each ``report.json`` to the page that the conformance command writes, and check what is written from code."""

from __future__ import annotations

import runpy
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from northbridge_conformance.report.html import render_page
from northbridge_conformance.report.report import CHANGED, Report
from northbridge_conformance.report.suite_run import find_faults

OF_THIS_COMMIT = "shown/report.json"
"""The example, which is from the suite of this commit; the others are records of a day."""


def on_pre_build(*, config: MkDocsConfig) -> None:  # noqa: ARG001 - MkDocs passes it
    """Raise ``PluginError``, which ends the build, if a page that is written from the code says something else."""
    if stale := runpy.run_path(str(Path(__file__).with_name("reference.py")))["find_stale"]():
        raise PluginError(f"docs/reference: {', '.join(stale)}: the code has changed. Fix: make reference")


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Put a page in the place of each report; MkDocs calls it when it has found the files.

    Raises ``PluginError`` if a report was changed after the suite wrote it, or the example is from another suite.
    """
    for report in [each for each in files if Path(each.src_uri).name == "report.json"]:
        assert report.abs_src_path is not None
        files.remove(report)
        read = Report.read(Path(report.abs_src_path))
        faults = find_faults(read) if report.src_uri == OF_THIS_COMMIT else [CHANGED] if read.is_changed else []
        if faults:
            raise PluginError(f"{report.abs_src_path}: {faults[0]}. Fix: make shown, or make real")
        page = str(Path(report.src_uri).with_suffix(".html"))
        files.append(File.generated(config, page, content=render_page(read)))
    return files
