"""Render each ``report.json`` to the page that the conformance command writes, each time the site is built."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from northbridge_conformance.report.html import render_page
from northbridge_conformance.report.report import CHANGED, Report


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Put a page in the place of each report; MkDocs calls it when it has found the files.

    Raises ``PluginError``, which ends the build, if a report was changed after the suite wrote it.
    """
    for report in [each for each in files if Path(each.src_uri).name == "report.json"]:
        assert report.abs_src_path is not None
        files.remove(report)
        read = Report.read(Path(report.abs_src_path))
        if read.is_changed:
            raise PluginError(f"{report.abs_src_path}: {CHANGED}. Fix: make shown, or make real")
        page = str(Path(report.src_uri).with_suffix(".html"))
        files.append(File.generated(config, page, content=render_page(read)))
    return files
