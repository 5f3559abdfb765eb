"""Claims of a chip."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from northbridge import Capabilities, no, unknown, yes
from northbridge.capabilities import DENIABLE, FACTS


def test_only_a_denial_is_denied_and_it_has_a_reason() -> None:
    claim = no("its adders are 16 bits wide")

    assert (claim.denied, claim.reason) == (True, "its adders are 16 bits wide")
    assert [yes.denied, unknown.denied] == [False, False]
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


def test_claims_are_found_by_their_names_and_cannot_be_changed() -> None:
    capabilities = Capabilities(float64=no("it has no such unit"))

    assert capabilities.claims()["float64"] is capabilities.float64
    with pytest.raises(FrozenInstanceError):
        capabilities.bfloat16 = yes  # type: ignore[misc]  # the point of the test


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
