"""What becomes of results in a dtype that the chip denies."""

from __future__ import annotations

import os

import pytest
from tests.faults.wrong_backends import try_backend

import northbridge
from northbridge.discovery.declared import is_declared
from northbridge_conformance.tests.device.dtypes import warned_of_where_denied
from northbridge_conformance.tests.device.one_device import reject_without, rejected_where_denied
from northbridge_conformance.verdict import Verdict


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend that denies one dtype, claims another, and says nothing of a third."""
    northbridge.get("cpu_sim")
    assert is_declared("cpu_sim")
    claims = northbridge.Capabilities(float64=northbridge.no("it has no room"), float16=northbridge.yes)
    monkeypatch.setattr(northbridge.get("cpu_sim").device, "capabilities", lambda _claimed: claims, raising=False)
    return "cpu_sim"


@pytest.mark.parametrize(
    ("error", "words"),
    [(AssertionError("1 is not 2"), "its results differ"), (RuntimeError("no such kernel"), "no such kernel; ")],
    ids=["wrong results", "the vendor's error"],
)
def test_result_of_a_denied_dtype_is_a_refusal(backend: str, error: Exception, words: str) -> None:
    told = rf"denies float64 \(it has no room\).*{words}"

    with pytest.raises(northbridge.UnsupportedError, match=told) as caught, rejected_where_denied(backend, "float64"):
        raise error

    assert caught.value.capability == "float64"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("claim", ["float16", "int64"])
@pytest.mark.parametrize("error", [AssertionError("1 is not 2"), RuntimeError("no such kernel")])
def test_what_comes_of_a_dtype_that_is_not_denied_passes_through(backend: str, claim: str, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), rejected_where_denied(backend, claim):
        raise error


def test_right_results_in_a_dtype_that_is_denied_raise_nothing(backend: str) -> None:
    with rejected_where_denied(backend, "float64"):
        found = 1

    assert found == 1


def test_argument_of_a_denied_dtype_is_refused(backend: str) -> None:
    with pytest.raises(northbridge.UnsupportedError, match=r"denies float64 \(it has no room\)") as error:
        reject_without(backend, "float64")

    assert error.value.capability == "float64"


@pytest.mark.parametrize("claim", ["float16", "int64"])
def test_what_takes_a_dtype_that_is_not_denied_is_tried(backend: str, claim: str) -> None:
    reject_without(backend, claim)


def test_a_machine_with_one_device_forbids_no_test_of_one() -> None:
    asked = tuple(f"C1/{name}/" for name in ("Placement", "RandomNumbers", "Memory", "SavedTensors"))

    found = try_backend("cpu_sim", "C1", asked, {**os.environ, "NORTHBRIDGE_CPU_SIM_DEVICES": "1"})

    assert len(found) > 50
    assert [result.id for result in found if result.verdict is not Verdict.PASS] == []


CLAIMS = ("bfloat16", "bfloat16_range")


def claim(monkeypatch: pytest.MonkeyPatch, *, simulated: bool, bfloat16_range: northbridge.Claim) -> None:
    claims = northbridge.Capabilities(simulated=simulated, bfloat16=northbridge.yes, bfloat16_range=bfloat16_range)
    device = northbridge.get("cpu_sim").device
    monkeypatch.setattr(device, "capabilities", lambda _claimed: claims, raising=False)


def test_a_real_chip_that_computes_what_it_denies_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, simulated=False, bfloat16_range=northbridge.no("it ends at 65504"))

    with warned_of_where_denied("cpu_sim", *CLAIMS):
        computed = True

    assert computed


def test_real_chip_refuses_a_denied_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, simulated=False, bfloat16_range=northbridge.no("it ends at 65504"))

    with (
        pytest.raises(northbridge.UnsupportedError, match=r"\(it ends at 65504\), and its results differ"),
        warned_of_where_denied("cpu_sim", *CLAIMS),
    ):
        raise AssertionError("inf is not 2^100")


def test_simulated_chip_is_not_asked_about_denied_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, simulated=True, bfloat16_range=northbridge.no("it ends at 65504"))

    with (
        pytest.raises(northbridge.UnsupportedError, match=r"denies bfloat16_range \(it ends at 65504\)"),
        warned_of_where_denied("cpu_sim", *CLAIMS),
    ):
        raise AssertionError("it was asked")


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("answer", [northbridge.yes, northbridge.unknown], ids=["claimed", "unknown"])
def test_wrong_results_of_what_is_not_denied_stay_wrong(
    monkeypatch: pytest.MonkeyPatch, simulated: bool, answer: northbridge.Claim
) -> None:
    claim(monkeypatch, simulated=simulated, bfloat16_range=answer)

    with pytest.raises(AssertionError, match="inf is not"), warned_of_where_denied("cpu_sim", *CLAIMS):
        raise AssertionError("inf is not 2^100")
