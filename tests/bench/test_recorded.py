"""Reading a report again."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.recorded import ReportFileError, read


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", r"report\.json is not a report of make bench: all of it: .*; measure again$"),
        ('{"date": "today"}', r"report\.json is not a report of make bench: commit: Field required; measure again$"),
    ],
)
def test_a_file_that_is_not_a_report_is_an_error_that_says_where(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "report.json").write_text(content)

    with pytest.raises(ReportFileError, match=said):
        read(tmp_path / "report.json")


def test_where_nothing_was_measured_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReportFileError, match=r"report\.json: measure first, by make bench$"):
        read(tmp_path / "report.json")
