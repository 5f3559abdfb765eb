"""Markdown for a README or an issue."""

from __future__ import annotations

import re

from northbridge_conformance.report.markdown import render_markdown
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Ending, Verdict


def test_it_begins_with_the_level(good: Report, nothing: Report) -> None:
    assert render_markdown(good).startswith("# acme: C3 (simulated)\n\nSeveral devices train together")
    assert render_markdown(nothing).startswith("# acme: No level granted\n")


def test_of_a_simulated_chip_it_claims_nothing_about_a_real_one(good: Report, mixed: Report) -> None:
    assert "Nothing is claimed about a real one" in render_markdown(good)
    assert "Nothing is claimed about a real one" not in render_markdown(mixed)


def test_every_claim_is_a_row_with_its_finding(mixed: Report) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w ]+) \|", render_markdown(mixed), flags=re.M)

    assert {name for name, _, _ in rows} == set(mixed.claims)
    assert ("float16", "yes", "false") in rows
    assert ("bfloat16", "no", "hidden") in rows


def test_a_level_that_is_withheld_says_why(mixed: Report) -> None:
    assert re.search(
        r"^\| C3 Several devices \| no \| 210 \| barrier is not proved: TIMEOUT; ", render_markdown(mixed), re.M
    )


def test_failures_come_with_evidence_and_fix(mixed: Report) -> None:
    page = render_markdown(mixed)

    titles = re.findall(r"^### ([A-Z ]+): ", page, flags=re.M)
    assert titles == ["FAIL"] * 4 + ["TIMEOUT", "UNDERCLAIM", "NOT RUN"]
    assert "```text\nE  assert 1.0 == 65536.0\n```\n\nWhat to do: See that the gradient scaler" in page


def test_hostile_text_is_not_markup(hostile: Report) -> None:
    page = render_markdown(hostile)

    # What is fenced or quoted as code is text; of what is not, no bracket opens a tag and no bar a cell.
    (fence,) = re.findall(r"^(`{4,})text$", page, flags=re.M)
    assert len(fence) > 9  # the evidence holds nine
    prose = re.sub(r"^(`{3,})text\n.*?^\1$", "", page, flags=re.M | re.S)
    prose = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", prose)
    assert not re.search(r"(?<!\\)<", prose)
    assert "all \\| is \\`well\\`" in page
    assert "\x1b" not in page


def test_what_is_too_long_for_an_issue_is_left_out_and_counted(mixed: Report) -> None:
    failing = [
        test.model_copy(update={"verdict": Verdict.FAIL, "ending": Ending.FAILED, "evidence": "E  wrong\n" * 300})
        for test in mixed.tests
    ]

    page = render_markdown(mixed.model_copy(update={"tests": tuple(failing)}))

    shown = page.count("### FAIL")
    assert 0 < shown < len(failing)
    assert f"{len(failing) - shown} more did not pass; they are in `index.html`" in page
    assert len(page) < 65536
