"""What a report says in words, and its Markdown for a README or an issue."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from northbridge.capabilities import LEVEL_CLAIMS, Capabilities
from northbridge_conformance.report import overview
from northbridge_conformance.report.markdown import render_markdown
from northbridge_conformance.report.overview import (
    count_operators,
    count_run,
    count_verdicts,
    explain_level,
    group_claims,
    list_doubts,
    list_silent_errors,
    name_level,
    show_memory,
    show_moment,
    show_seconds,
)
from northbridge_conformance.report.report import NOT_ASKED, ClaimResult, Report
from northbridge_conformance.verdict import Ending, Verdict


def test_it_begins_with_the_level(good: Report, nothing: Report) -> None:
    assert render_markdown(good).startswith("# acme: C3 (simulated)\n\nSeveral devices train together")
    assert "Nothing is claimed about a real one" in render_markdown(good)
    assert render_markdown(nothing).startswith("# acme: No level granted\n")
    assert "Nothing is claimed about a real one" not in render_markdown(nothing)
    assert "Rely only on" in explain_level(nothing)


def test_every_claim_is_a_row_with_its_finding(mixed: Report) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w ]+) \|", render_markdown(mixed), flags=re.M)

    assert {name for name, _, _ in rows} == set(mixed.claims)
    assert ("float16", "yes", "false") in rows
    assert ("bfloat16", "no", "hidden") in rows


def test_first_lines_tell_of_operators_and_silent_errors(partial: Report, good: Report) -> None:
    first = render_markdown(partial).partition("## Levels")[0]

    assert " Operators of torch: 2 denied, 1 loosened. " in first
    assert "> **A silent error of the chip: an operation on one of its tensors" in first
    assert count_operators(good) == ""
    assert list_silent_errors(good) == []


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


def test_verdicts_are_counted_those_first_that_need_somebody(mixed: Report) -> None:
    counts = count_verdicts(mixed)

    assert [(verdict.value, number) for verdict, number in counts.items()][:5] == [
        ("FAIL", 4),
        ("TIMEOUT", 1),
        ("UNDERCLAIM", 1),
        ("NOT RUN", 1),
        ("UNKNOWN", 1),
    ]
    assert count_run(mixed) == len(mixed.tests) - counts[Verdict.NOT_RUN]


def test_claims_are_grouped_by_what_was_found_out(mixed: Report) -> None:
    groups = group_claims(mixed)

    assert (groups["false"], groups["hidden"], groups["refused"]) == (["float16"], ["bfloat16"], ["float8"])
    assert sum(map(len, groups.values())) == len(mixed.claims)


def test_of_a_part_of_the_suite_no_level_is_said_to_be_withheld(good: Report) -> None:
    left_out = good.tests[0].model_copy(update={"verdict": Verdict.NOT_RUN, "evidence": NOT_ASKED})
    part = good.model_copy(update={"tests": (left_out, *good.tests[1:])}).sealed()

    assert name_level(part) == "A part of the suite"
    assert "Run the suite without --only" in explain_level(part)


def test_changed_and_incomplete_reports_are_doubted(good: Report) -> None:
    (changed,) = list_doubts(good.model_copy(update={"seconds": 1.0}))
    (cut,) = list_doubts(good.model_copy(update={"tests": good.tests[1:]}).sealed())

    assert list_doubts(good) == []
    assert changed.startswith("The report was changed after it was written")
    assert f"1 of {len(good.tests)} tests" in cut
    assert good.tests[0].id in cut


def test_report_without_strict_options_is_doubted(good: Report) -> None:
    suite = good.suite.model_copy(update={"options_off": ("STREAMS=immediate, and not deferred",)})

    (doubt,) = list_doubts(good.model_copy(update={"suite": suite}).sealed())
    assert doubt == (
        "The simulated chip ran without strict options (STREAMS=immediate, and not deferred): what it forgave,"
        " a real one may not."
    )


def test_everything_that_a_report_says_is_explained() -> None:
    assert list(overview.LEVELS) == list(LEVEL_CLAIMS)
    assert set(overview.VERDICTS) == set(Verdict)
    assert set(overview.CLAIMS) == set(get_args(ClaimResult.model_fields["finding"].annotation))
    assert set(overview.CLAIMED) == set(Capabilities().claims())
    assert all(overview.CLAIMED.values())


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.018, "0.02 s"), (14.4, "14 s"), (119.6, "2 min 0 s"), (200.2, "3 min 20 s")]
)
def test_a_duration(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown


def test_memory_and_moments() -> None:
    assert show_memory(8 * 2**30) == "8.0 GiB"
    assert show_moment("2026-11-24T20:40:45.123+00:00") == "2026-11-24 20:40 UTC"
