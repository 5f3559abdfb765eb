"""Figures: what passes, what fails, and what is void."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from northbridge_conformance.verdict import PROPERTY, Figure, VoidError, check


def figure(found: float, gate: float) -> Figure:
    return Figure(name="gradient of weight", found=found, bound=1e-3, gate=gate)


def test_figures_within_their_bounds_are_recorded() -> None:
    recorded: list[tuple[str, object]] = []
    figures = [figure(5e-4, 1e-4), figure(0.0, 0.0)]

    check(lambda name, value: recorded.append((name, value)), figures)

    assert recorded == [(PROPERTY, each.model_dump()) for each in figures]
    assert [each.margin for each in figures] == [2.0, math.inf]


@pytest.mark.parametrize("found", [2e-3, math.nan, math.inf])
def test_figure_beyond_its_bound_fails(found: float) -> None:
    with pytest.raises(AssertionError, match=r"than the bound: gradient of weight: .* off, bound 0\.001, gate 0\.0001"):
        check(lambda *_: None, [figure(found, 1e-4)])


@pytest.mark.parametrize("bound", [math.nan, math.inf])
def test_bound_that_is_not_finite_passes_nothing(bound: float) -> None:
    with pytest.raises(AssertionError, match="than the bound: norm"):
        check(lambda *_: None, [Figure(name="norm", found=0.0, bound=bound, gate=0.0)])


@pytest.mark.parametrize("gate", [2e-3, math.nan])
@pytest.mark.parametrize("found", [0.0, 2e-3])
def test_gate_beyond_the_bound_is_void(found: float, gate: float) -> None:
    with pytest.raises(VoidError, match="two right ways to compute differ by more than the bound on this device"):
        check(lambda *_: None, [figure(found, gate)])


def test_figure_crosses_json() -> None:
    for each in (figure(math.nan, math.inf), figure(1e-5, 0.0)):
        assert Figure.model_validate_json(each.model_dump_json()) == each


def test_distance_must_be_a_number() -> None:
    with pytest.raises(ValidationError, match="valid number"):
        Figure.model_validate_json('{"name": "norm", "found": "far", "bound": 1.0, "gate": 0.0}')
