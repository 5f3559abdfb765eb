"""The overview of a report, and the reasons to doubt it."""

from __future__ import annotations

from northbridge_conformance.report.pages.overview import (
    count_run,
    count_verdicts,
    explain_level,
    group_claims,
    list_doubts,
    name_level,
)
from northbridge_conformance.report.report import NOT_ASKED, Report
from northbridge_conformance.verdict import Verdict


def test_a_simulated_level_says_so(good: Report) -> None:
    assert name_level(good) == "C3 (simulated)"
    assert explain_level(good).startswith("Several devices train together")


def test_where_no_level_is_granted_it_says_so(nothing: Report) -> None:
    assert name_level(nothing) == "No level granted"
    assert "Rely only on" in explain_level(nothing)


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


def test_a_sound_report_is_not_doubted(good: Report) -> None:
    assert list_doubts(good) == []


def test_a_report_that_was_changed_is_doubted(good: Report) -> None:
    changed = good.model_copy(update={"seconds": 1.0})

    (doubt,) = list_doubts(changed)
    assert doubt.startswith("The report was changed after it was written")


def test_incomplete_report_is_doubted(good: Report) -> None:
    cut = good.model_copy(update={"tests": good.tests[1:]}).sealed()

    (doubt,) = list_doubts(cut)
    assert f"1 of {len(good.tests)} tests" in doubt
    assert good.tests[0].id in doubt


def test_report_without_strict_options_is_doubted(good: Report) -> None:
    suite = good.suite.model_copy(update={"options_off": ("STREAMS=immediate, and not deferred",)})

    (doubt,) = list_doubts(good.model_copy(update={"suite": suite}).sealed())
    assert doubt == (
        "The simulated chip ran without strict options (STREAMS=immediate, and not deferred): what it forgave,"
        " a real one may not."
    )


def test_report_of_a_broken_backend_shows_nothing(good: Report) -> None:
    suite = good.suite.model_copy(update={"mutation": "seed 3: add is off by one"})
    broken = good.model_copy(update={"suite": suite}).sealed()

    (doubt,) = list_doubts(broken)
    assert "broken on purpose for this run (seed 3: add is off by one)" in doubt
