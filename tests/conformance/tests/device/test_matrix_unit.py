"""Results for a chip that denies what its matrix unit lacks."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_conformance.tests.device.matrix_unit import warned_of_where_denied

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
