"""Base of classes that test one device of the chip, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import Suite, require_devices
from northbridge_conformance.tests.device.claimed_operators import PROPERTY, OperatorWatch


class OneDevice(Suite):
    """Tests on the last device of this machine.

    If a process keeps its card, the ranks that the suite starts find the first ones free.
    """

    watches_operators: ClassVar[bool] = True
    """True if the calls of operators that the chip denies or loosens are watched, as captures and compilers forbid."""

    @pytest.fixture(autouse=True)
    def watched(self, request: pytest.FixtureRequest, backend: str) -> Iterator[None]:
        """Hold the calls of claimed operators to their claims, which the test then shows."""
        if not (self.watches_operators and northbridge.get(backend).capabilities.operators):
            yield
            return
        require_devices(backend, 1)
        noted: list[tuple[str, object]] = request.node.user_properties

        def note(claim: str) -> None:
            if (PROPERTY, claim) not in noted:
                noted.append((PROPERTY, claim))

        with OperatorWatch(northbridge.load(backend), note):
            yield

    @pytest.fixture
    def chip(self, backend: str) -> northbridge.Device:
        """The chip as torch sees it."""
        return northbridge.load(backend).device

    @pytest.fixture
    def index(self, chip: northbridge.Device) -> int:
        """The index of the device."""
        return chip.count() - 1

    @pytest.fixture
    def device(self, backend: str, chip: northbridge.Device, index: int) -> Iterator[torch.device]:
        """The device, acquired by this process and made current."""
        before = dict(os.environ)
        try:
            northbridge.get(backend).bridge.prepare_rank(index=index, local_rank=0, world_size=1)
            chip.select(index)
            yield chip.root(index)
        finally:
            # The variables that select this process's card must not reach the processes of later tests.
            os.environ.clear()
            os.environ.update(before)

    @pytest.fixture
    def alone(self, chip: northbridge.Device) -> bool:
        """Return True if this process has no second device: the machine has one, or a process can hold only one."""
        return chip.count() == 1 or chip.root(0) == chip.root(1)

    @pytest.fixture
    def other(self, chip: northbridge.Device, device: torch.device, alone: bool) -> torch.device:
        """Another device: the first one, or for an ``alone`` process the next index, which does not exist.

        For the latter, a test checks that the index is refused. The interaction of two devices is then left to two
        processes, or to a machine with two devices, which C3 needs.
        """
        return torch.device(chip.type, device.index + 1) if alone else chip.root(0)


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient of ``tensor``, which must have one."""
    assert tensor.grad is not None
    return tensor.grad


@contextmanager
def rejected_where_denied(
    backend: str,
    claim: str,
    consequence: str = "a precision that needs it is refused, and such tensors are warned about",
) -> Iterator[None]:
    """Turn wrong results and the vendor's errors into a refusal with the reason, if the chip denies ``claim``.

    Some chips store a dtype but compute in another one. They raise no error, or an unrelated one, and only the claim
    tells of it: Northbridge uses it to refuse a precision, or to warn. Raises :class:`UnsupportedError` in this case,
    and else the original error.
    """
    try:
        yield
    except (AssertionError, RuntimeError) as error:
        denied = northbridge.get(backend).present_capabilities().claims()[claim]
        if not denied.denied:
            raise
        found = f"it raised {error}" if isinstance(error, RuntimeError) else "its results differ"
        raise northbridge.UnsupportedError(
            f"{backend!r} denies {claim} ({denied.reason}), and {found}; {consequence}",
            capability=claim,
        ) from error


def reject_without(backend: str, claim: str) -> None:
    """Raise :class:`UnsupportedError` if the chip denies ``claim``: Northbridge then rejects its uses, or warns."""
    denied = northbridge.get(backend).present_capabilities().claims().get(claim, northbridge.yes)
    if denied.denied:
        raise northbridge.UnsupportedError(
            f"{backend!r} denies {claim} ({denied.reason}); what uses it is rejected, warned about, or left out",
            capability=claim,
        )
