"""What a class has that looks at one device."""

from __future__ import annotations

import os

import pytest
from tests.conformance.wrong_backends import try_backend

import northbridge
from northbridge.conformance.tests.device.one_device import refuse_without, refused_where_denied
from northbridge.conformance.verdict import Verdict
from northbridge.discovery.declared import is_declared

WORDS = "its results are others"


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend that denies one dtype, claims another, and says nothing of a third."""
    northbridge.get("cpu_sim")
    assert is_declared("cpu_sim")
    claims = northbridge.Capabilities(float64=northbridge.no("it has no room"), float16=northbridge.yes)
    monkeypatch.setattr(northbridge.get("cpu_sim").device, "capabilities", lambda _claimed: claims, raising=False)
    return "cpu_sim"


def test_wrong_results_in_a_dtype_that_is_denied_are_a_refusal_with_its_reason(backend: str) -> None:
    told = f"asked for float64.*{WORDS}.*it has no room"

    with pytest.raises(northbridge.UnsupportedError, match=told) as error, refused_where_denied(backend, "float64"):
        raise AssertionError("1 is not 2")

    assert error.value.capability == "float64"
    assert isinstance(error.value.__cause__, AssertionError)


@pytest.mark.parametrize("claim", ["float16", "int64"])
def test_wrong_results_in_a_dtype_that_is_not_denied_stay_wrong(backend: str, claim: str) -> None:
    with pytest.raises(AssertionError, match="1 is not 2"), refused_where_denied(backend, claim):
        raise AssertionError("1 is not 2")


def test_right_results_in_a_dtype_that_is_denied_raise_nothing(backend: str) -> None:
    with refused_where_denied(backend, "float64"):
        found = 1

    assert found == 1


def test_an_error_of_the_vendors_in_a_dtype_that_is_denied_is_a_refusal_with_its_words(backend: str) -> None:
    told = "asked for float64, and it raised the vendor's words; .*it has no room"

    with pytest.raises(northbridge.UnsupportedError, match=told), refused_where_denied(backend, "float64"):
        raise RuntimeError("the vendor's words")


def test_an_error_of_the_vendors_in_a_dtype_that_is_claimed_passes_through(backend: str) -> None:
    with pytest.raises(RuntimeError, match="the vendor's words"), refused_where_denied(backend, "float16"):
        raise RuntimeError("the vendor's words")


def test_what_takes_a_dtype_that_is_denied_is_refused_with_its_reason(backend: str) -> None:
    with pytest.raises(northbridge.UnsupportedError, match=r"what float64 alone needs.*it has no room") as error:
        refuse_without(backend, "float64")

    assert error.value.capability == "float64"


@pytest.mark.parametrize("claim", ["float16", "int64"])
def test_what_takes_a_dtype_that_is_not_denied_is_tried(backend: str, claim: str) -> None:
    refuse_without(backend, claim)


def test_a_machine_with_one_device_forbids_no_test_of_one() -> None:
    asked = tuple(f"C1/{name}/" for name in ("Placement", "RandomNumbers", "Memory", "SavedTensors"))

    found = try_backend("cpu_sim", "C1", asked, {**os.environ, "NORTHBRIDGE_CPU_SIM_DEVICES": "1"})

    assert len(found) > 50
    assert [result.id for result in found if result.verdict is not Verdict.PASS] == []
