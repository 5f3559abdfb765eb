"""Calls of operators that a chip denies or loosens: what raises, what is refused, and what is noted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import northbridge
from northbridge_conformance.tests.device.claimed_operators import (
    OperatorWatch,
    known_operators,
    name_of,
    reject_unknown_operators,
)

SINGULAR = torch.zeros(2, 2)
SAID: dict[str, northbridge.Claim | northbridge.Within] = {
    "linalg_cholesky": northbridge.no("it has no such kernel"),
    "asin": northbridge.Within(3e-4, "its table has 12 bits"),
}


class Host(northbridge.Device):
    """The CPU as a chip, on which an operator raises where its argument does not fit."""

    type = "cpu"
    late: str = ""

    def synchronize(self) -> None:
        if self.late:
            raise RuntimeError(self.late)


class Library(northbridge.Collective):
    name = "hostccl"


class Software(northbridge.Bridge):
    def load(self) -> None:
        """Load nothing: torch has the CPU."""


@pytest.fixture
def noted() -> list[str]:
    """The claims that a watch has noted."""
    return []


@pytest.fixture
def chip() -> northbridge.Backend:
    """A chip that denies one operator and loosens another."""
    claims = northbridge.Capabilities(operators=SAID)
    return northbridge.Backend("host", Host(), Library(), Software(), claims)


@pytest.fixture
def watch(chip: northbridge.Backend, noted: list[str]) -> OperatorWatch:
    """The watch over the chip."""
    return OperatorWatch(chip, noted.append)


def test_error_of_a_denied_operator_is_a_refusal(watch: OperatorWatch, noted: list[str]) -> None:
    with pytest.raises(northbridge.UnsupportedError) as refusal, watch:
        torch.linalg.cholesky(SINGULAR)

    assert noted == ["operators.linalg_cholesky"]
    assert refusal.value.capability == "operators.linalg_cholesky"
    said = "'host' denies the operator linalg_cholesky (it has no such kernel), and it raised _LinAlgError: linalg.chol"
    assert str(refusal.value).startswith(said)


def test_late_error_of_a_denied_operator_is_a_refusal(chip: northbridge.Backend, watch: OperatorWatch) -> None:
    chip.device.late = "kernel failed"  # type: ignore[attr-defined]  # of the device above

    with pytest.raises(northbridge.UnsupportedError, match="raised RuntimeError: kernel failed"), watch:
        torch.linalg.cholesky(torch.eye(2))


def test_denied_operator_that_works_is_noted(watch: OperatorWatch, noted: list[str]) -> None:
    with watch:
        assert torch.linalg.cholesky(torch.eye(2)).equal(torch.eye(2))

    assert noted == ["operators.linalg_cholesky"]


@pytest.mark.parametrize("off", [0.0, 2e-4])
def test_loosened_operator_may_be_off_by_its_bound(watch: OperatorWatch, noted: list[str], off: float) -> None:
    assert call(watch, off).tolist() == pytest.approx([0.5 + off, float("nan")], nan_ok=True)
    assert noted == ["operators.asin"]


def test_loosened_operator_beyond_its_bound_fails(watch: OperatorWatch) -> None:
    with pytest.raises(AssertionError) as error:
        call(watch, 1e-3)

    assert str(error.value) == (
        "the operator asin gives 0.501 where the CPU has 0.5, and Within(0.0003, 'its table has 12 bits') allows 0.0003"
        " × (1 + the size of the CPU's number)"
    )


def call(watch: OperatorWatch, off: float) -> Any:
    """Return what a call of ``asin`` gives that is ``off`` by so much on the chip, which is called first."""
    offs = [off, 0.0]

    def asin(given: torch.Tensor) -> torch.Tensor:
        return given + offs.pop(0)

    return watch.__torch_function__(asin, (), (torch.tensor([0.5, float("nan")]),))


def test_other_operators_and_other_devices_are_not_watched(watch: OperatorWatch, noted: list[str]) -> None:
    with watch:
        torch.ones(2).acos()
        torch.ones(2, device="meta").asin()

    assert noted == []


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.asin, "asin"),
        (torch.Tensor.asin_, "asin"),
        (torch.Tensor.__rsub__, "rsub"),
        (torch.nn.functional.gelu, "gelu"),
        (torch.linalg.svdvals, "linalg_svdvals"),
        (vars(torch._C.TensorBase)["T"].__get__, ""),
    ],
)
def test_an_operator_has_the_name_of_its_function(function: object, name: str) -> None:
    assert name_of(function) == name


def test_every_operator_that_torch_shows_is_known() -> None:
    assert {"lstm", "lstm_cell", "gru", "asin", "softmax", "interpolate", "add", "_foreach_add"} <= known_operators()
    reject_unknown_operators("acme", ["lstm", "asin"])


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("lstmm", "did you mean 'lstm'?"),
        ("nn.LSTM", "did you mean 'lstm'?"),
        ("aten::asin", "did you mean 'asin'?"),
        ("linalg.svdvals", "did you mean 'linalg_svdvals'?"),
        ("zzzzz", "use the name of the function that a user calls"),
    ],
)
def test_unknown_operator_is_told_with_what_was_meant(name: str, fix: str) -> None:
    with pytest.raises(northbridge.PluginClaimError) as error:
        reject_unknown_operators("acme", ["asin", name])

    assert str(error.value) == (
        f"backend 'acme': Capabilities(operators=…) names {name!r}, which is not an operator of torch"
        f" {torch.__version__}. Fix: {fix}"
    )
