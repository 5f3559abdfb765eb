"""What a report says in words: there is one for everything that it can say; and what its doubts are."""

from __future__ import annotations

from typing import get_args

import pytest

from northbridge.capabilities import LEVEL_CLAIMS, Capabilities
from northbridge_conformance.report import overview
from northbridge_conformance.report.overview import (
    count_run,
    count_verdicts,
    explain_level,
    group_claims,
    list_doubts,
    name_level,
    show_memory,
    show_moment,
    show_seconds,
)
from northbridge_conformance.report.report import NOT_ASKED, ClaimResult, Report
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


def test_every_level_is_explained_in_its_order() -> None:
    assert list(overview.LEVELS) == list(LEVEL_CLAIMS)


def test_every_verdict_is_explained() -> None:
    assert set(overview.VERDICTS) == set(Verdict)


def test_every_finding_is_explained() -> None:
    assert set(overview.CLAIMS) == set(get_args(ClaimResult.model_fields["finding"].annotation))


def test_every_claim_has_a_meaning() -> None:
    assert set(overview.CLAIMED) == set(Capabilities().claims())
    assert all(overview.CLAIMED.values())


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.018, "0.02 s"), (14.4, "14 s"), (119.6, "2 min 0 s"), (200.2, "3 min 20 s")]
)
def test_a_duration(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown


def test_memory_is_in_gibibytes() -> None:
    assert show_memory(8 * 2**30) == "8.0 GiB"


def test_a_moment_is_to_the_minute() -> None:
    assert show_moment("2026-11-24T20:40:45.123+00:00") == "2026-11-24 20:40 UTC"
