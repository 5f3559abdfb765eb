"""Fixtures of classes whose ranks use the communication library without Lightning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

import northbridge
from northbridge.errors import UnsupportedError
from northbridge_conformance.runs.ranks import error_of, failure_of
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.step_by_step import run_steps
from northbridge_conformance.suite import Suite, require_devices

STEPS = ("collective_reductions", "transfers", "transfers.exchange", "groups", "waits", "ddp_gradients", "first_step")
"""The steps of the ranks in one run."""

Facts = list[dict[str, Any]]
"""The findings of every rank, rank 0 first."""

Claims = Mapping[str, northbridge.Claim]


def may_reject(claims: Claims, dtype: str) -> bool:
    """Return True if the chip may lack ``dtype``: it denies it, or its claim is unknown."""
    return dtype in claims and claims[dtype].answer != "yes"


def as_held(exact: Any, dtype: str, claimed: Claims) -> Any:
    """Return ``exact`` as a chip represents it: one that denies float64 may compute with float32 instead."""
    return pytest.approx(exact, rel=1e-6) if dtype == "float64" and claimed[dtype].denied else exact


def everybodys(ranks: Facts, name: str) -> list[Any]:
    """Return each rank's result of ``name``.

    Raises :class:`UnsupportedError` if the library refused on every rank, and :class:`AssertionError` if only on some,
    or if it failed.
    """
    found = [rank[name] for rank in ranks]
    failures = [f"rank {rank}: {failure}" for rank, each in enumerate(found) if (failure := failure_of(each))]
    if failures:
        raise AssertionError(f"{name} failed:\n" + "\n".join(failures))  # pytest would append them to an assert
    errors = [error_of(each) for each in found]
    if all(errors):
        raise UnsupportedError(f"{name}: {errors[0]}", capability="collective")
    assert not any(errors), f"{name} fails on some ranks, and the others wait for them: {errors}"
    return found


def rejections(ranks: Facts, name: str) -> list[str]:
    """Return the error of each rank if the library refused on every one, else an empty list."""
    errors = [error_of(rank[name]) for rank in ranks]
    return errors if all(errors) else []


@pytest.mark.parametrize("devices", [2, 4], ids=["two devices", "four devices"])
class Ranks(Suite):
    """Tests of ranks that use the communication library; Lightning is not imported."""

    step: ClassVar[str]

    @pytest.fixture
    def claimed(self, backend: str) -> Claims:
        """Return the claims of this machine's cards."""
        return northbridge.load(backend).present_capabilities().claims()

    @pytest.fixture
    def ranks(self, backend: str, devices: int, environ: dict[str, str]) -> Facts:
        """Return the findings of every rank."""
        require_devices(backend, devices)
        return run_steps(Scenario(backend, "", STEPS, devices, launch="ranks"), environ).ranks(self.step)
