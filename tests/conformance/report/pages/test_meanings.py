"""The words that explain a report: there is one for everything that a report can say."""

from __future__ import annotations

from typing import get_args

from northbridge.capabilities import LEVEL_CLAIMS, Capabilities
from northbridge_conformance.report.pages import meanings
from northbridge_conformance.report.report import ClaimResult
from northbridge_conformance.verdict import Verdict


def test_every_level_is_explained_in_its_order() -> None:
    assert list(meanings.LEVELS) == list(LEVEL_CLAIMS)


def test_every_verdict_is_explained() -> None:
    assert set(meanings.VERDICTS) == set(Verdict)


def test_every_finding_is_explained() -> None:
    assert set(meanings.CLAIMS) == set(get_args(ClaimResult.model_fields["finding"].annotation))


def test_every_claim_has_a_meaning() -> None:
    assert set(meanings.CLAIMED) == set(Capabilities().claims())
    assert all(meanings.CLAIMED.values())
