"""Base of classes that test one device of the chip, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import northbridge
from northbridge.conformance.suite import Suite


class OneDevice(Suite):
    """The last device of this machine.

    Where a process keeps its card, the ranks that the suite starts find the first ones free.
    """

    @pytest.fixture
    def chip(self, backend: str) -> northbridge.Device:
        """The chip as torch sees it."""
        return northbridge.load(backend).device

    @pytest.fixture
    def index(self, chip: northbridge.Device) -> int:
        """Which device it is."""
        return chip.count() - 1

    @pytest.fixture
    def device(self, backend: str, chip: northbridge.Device, index: int) -> Iterator[torch.device]:
        """The device, taken by this process and the current one."""
        before = dict(os.environ)
        try:
            northbridge.get(backend).bridge.prepare_rank(index=index, local_rank=0, world_size=1)
            chip.select(index)
            yield chip.root(index)
        finally:
            # What names this process's card is not for the processes that later tests start.
            os.environ.clear()
            os.environ.update(before)

    @pytest.fixture
    def alone(self, chip: northbridge.Device) -> bool:
        """Whether this process has no second device: the machine has one, or a process holds one, wherever it is."""
        return chip.count() == 1 or chip.root(0) == chip.root(1)

    @pytest.fixture
    def other(self, chip: northbridge.Device, device: torch.device, alone: bool) -> torch.device:
        """Another device: the first one; of a process that is ``alone`` with one, the next number, which is none.

        There a test makes sure that the number is refused. What two devices have to do with each other is then the
        affair of two processes, or of a machine that has two, which C3 takes.
        """
        return torch.device(chip.type, device.index + 1) if alone else chip.root(0)


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient of ``tensor``, which has to have one."""
    assert tensor.grad is not None
    return tensor.grad


@contextmanager
def rejected_where_denied(
    backend: str,
    claim: str,
    consequence: str = "a precision that needs it is refused, and such tensors are warned about",
) -> Iterator[None]:
    """Take wrong results, and errors of the vendor's, for a refusal where the chip denies ``claim``, and says why.

    Some chips keep a dtype and compute in another one. Nothing is raised, or an error that speaks of something else,
    and the claim alone tells of it: Northbridge refuses a precision, or warns, by it. Raises :class:`UnsupportedError`
    there, and what was raised elsewhere.
    """
    try:
        yield
    except (AssertionError, RuntimeError) as error:
        denied = northbridge.get(backend).present_capabilities().claims()[claim]
        if not denied.denied:
            raise
        found = f"it raised {error}" if isinstance(error, RuntimeError) else "its results are others"
        raise northbridge.UnsupportedError(
            f"{backend!r} was asked for {claim}, and {found}; it denies {claim}: {denied.reason}; {consequence}",
            capability=claim,
        ) from error


def reject_without(backend: str, claim: str) -> None:
    """Raise :class:`UnsupportedError` where the chip denies ``claim``: nobody does there what takes it unwarned."""
    denied = northbridge.get(backend).present_capabilities().claims()[claim]
    if denied.denied:
        raise northbridge.UnsupportedError(
            f"{backend!r} was asked for what {claim} alone needs, and it denies {claim}: {denied.reason}; the"
            " precisions that use it are refused, or warned of",
            capability=claim,
        )
