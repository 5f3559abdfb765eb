"""Claims are tested both ways."""

from __future__ import annotations

import pytest

from northbridge import Claim, no, unknown, yes
from northbridge_conformance.verdict import Ending, Verdict, judge

DENIED = no("it has no such unit")


@pytest.mark.parametrize(
    ("claims", "ending", "verdict"),
    [
        ([], Ending.WORKED, Verdict.PASS),
        ([], Ending.REFUSED, Verdict.FAIL),
        ([], Ending.FAILED, Verdict.FAIL),
        ([yes], Ending.WORKED, Verdict.PASS),
        ([yes], Ending.REFUSED, Verdict.FAIL),
        ([yes], Ending.FAILED, Verdict.FAIL),
        ([DENIED], Ending.WORKED, Verdict.UNDERCLAIM),
        ([DENIED], Ending.REFUSED, Verdict.PASS),
        ([DENIED], Ending.FAILED, Verdict.FAIL),
        ([unknown], Ending.WORKED, Verdict.UNKNOWN),
        ([unknown], Ending.REFUSED, Verdict.UNKNOWN),
        ([unknown], Ending.FAILED, Verdict.UNKNOWN),
        ([yes, unknown], Ending.WORKED, Verdict.UNKNOWN),
        ([unknown, DENIED], Ending.REFUSED, Verdict.PASS),
        ([yes, DENIED], Ending.WORKED, Verdict.UNDERCLAIM),
        ([], Ending.VOID, Verdict.VOID),
        ([yes], Ending.VOID, Verdict.VOID),
        ([DENIED], Ending.VOID, Verdict.VOID),
        ([unknown], Ending.VOID, Verdict.UNKNOWN),
    ],
)
def test_what_is_claimed_decides_what_an_ending_says(claims: list[Claim], ending: Ending, verdict: Verdict) -> None:
    assert judge(ending, claims) is verdict


@pytest.mark.parametrize("claims", [[], [yes], [DENIED], [unknown]])
def test_hang_and_forbidden_are_told_despite_claims(claims: list[Claim]) -> None:
    assert judge(Ending.HUNG, claims) is Verdict.TIMEOUT
    assert judge(Ending.FORBIDDEN, claims) is Verdict.NOT_RUN
