"""Claims of a chip."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from northbridge import Capabilities, Claim, no, unknown, yes
from northbridge.capabilities import DENIABLE, FACTS


def test_a_denial_carries_its_reason() -> None:
    claim = no("its adders are 16 bits wide")

    assert (claim.denied, claim.reason) == (True, "its adders are 16 bits wide")


@pytest.mark.parametrize("claim", [yes, unknown])
def test_what_is_not_denied_is_tried(claim: Claim) -> None:
    assert not claim.denied


def test_a_denial_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="a claim of 'no' needs a reason"):
        no("")


def test_chip_that_claims_nothing_is_real_and_unknown() -> None:
    capabilities = Capabilities()

    assert (capabilities.simulated, capabilities.auto, capabilities.rounds) == (False, True, False)
    assert [name for name, claim in capabilities.claims().items() if claim.answer != "unknown"] == ["float32_products"]


@pytest.mark.parametrize(("facts", "exact"), [((False, False), False), ((True, False), True), ((True, True), False)])
def test_simulated_chip_is_exact_unless_it_rounds(facts: tuple[bool, bool], exact: bool) -> None:
    assert Capabilities(simulated=facts[0], rounds=facts[1]).exact == exact


def test_every_field_but_the_facts_is_a_claim() -> None:
    assert set(Capabilities().claims()) == {each.name for each in fields(Capabilities)} - set(FACTS)


def test_a_claim_is_found_by_its_name() -> None:
    denial = no("it has no such unit")

    assert Capabilities(float64=denial).claims()["float64"] is denial


def test_claims_cannot_be_changed_afterwards() -> None:
    with pytest.raises(FrozenInstanceError):
        Capabilities().bfloat16 = yes  # type: ignore[misc]  # the point of the test


def test_three_claims_are_deniable() -> None:
    assert {"random_numbers", "memory_stats", "pinned_memory"} == DENIABLE
    assert all(Capabilities.of_level("C2").claims()[name] is yes for name in DENIABLE)


A_CLAIM = "northbridge.yes, northbridge.unknown or northbridge.no('the reason')"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"float64": True}, f"float64=True): expected {A_CLAIM}"),
        ({"float16": no}, "float16=<function no"),
        ({"simulated": yes}, "simulated=Claim"),
    ],
)
def test_what_is_not_a_claim_is_told(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError) as error:
        Capabilities(**wrong)

    assert str(error.value).startswith(f"Capabilities({words}")
