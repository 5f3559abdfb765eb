"""The folder that a run leaves."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import northbridge
from northbridge_conformance.report.pages.folder import write_all
from northbridge_conformance.report.report import Report


def test_everything_is_there_and_can_be_read(mixed: Report, tmp_path: Path) -> None:
    written = write_all(mixed, tmp_path / "new" / "folder")

    names = [path.name for path in written]
    assert names == ["report.json", "index.html", "report.md", "junit.xml", "torch_exclusions.json"]
    assert sorted(names) == sorted(os.listdir(tmp_path / "new" / "folder"))  # and no draft
    report, page, markdown, junit, exclusions = written
    assert Report.read(report) == mixed
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert markdown.read_text(encoding="utf-8").startswith("# acme: C0\n")
    assert ET.parse(junit).getroot().tag == "testsuites"
    assert set(json.loads(exclusions.read_text())) == {"test_exclusions", "op_allowlist"}


def test_an_earlier_run_is_replaced(good: Report, mixed: Report, tmp_path: Path) -> None:
    write_all(good, tmp_path)

    write_all(mixed, tmp_path)

    assert Report.read(tmp_path / "report.json") == mixed
    assert len(os.listdir(tmp_path)) == 5


def test_unwritable_folder_is_named_with_the_reason(good: Report, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    said = re.escape(
        f"cannot write {tmp_path / 'file' / 'out' / 'report.json'}: Not a directory. Fix: use another folder"
    )
    with pytest.raises(northbridge.ReportError, match=said):
        write_all(good, tmp_path / "file" / "out")


def test_a_full_disk_leaves_what_was_there(good: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(good, tmp_path)
    before = (tmp_path / "report.json").read_bytes()

    def fill(path: Path, text: str, **_: str) -> int:
        with path.open("w") as file:
            file.write(text[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(northbridge.ReportError, match="No space left on device"):
        write_all(good, tmp_path)

    assert (tmp_path / "report.json").read_bytes() == before
    assert len(os.listdir(tmp_path)) == 5
