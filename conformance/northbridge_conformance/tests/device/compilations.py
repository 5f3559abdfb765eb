"""The vendor's own counts of what was compiled."""

from __future__ import annotations

from itertools import pairwise

import torch

import northbridge
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import OneDevice, reject_without

SIZES = (5, 5, 5, 7, 7, 5, 7)
"""The batch size of each step. What is done in a first step alone is compiled in one of the first three."""

_NEW = SIZES.index(7)


class Compilations(OneDevice):
    """A count of the vendor's grows with a new shape, does not grow with a known one, and never shrinks."""

    advice = (
        "Look at Acceleration.compilations(): it returns totals of the process, of which one grows when a graph is"
        " compiled. Return nothing if the vendor's software does not count."
    )

    @shows("recompilation")
    def test_a_count_grows_with_new_shapes_alone(self, backend: str, device: torch.device) -> None:
        reject_without(backend, "recompilation")
        chip = northbridge.get(backend)

        counts = []
        for size in SIZES:
            _step(chip.bridge, device, size)
            counts.append(dict(chip.acceleration.compilations()))

        # The empty counts of a chip without any are equal too.
        assert [sorted(each) for each in counts] == [sorted(counts[0])] * len(SIZES)
        grown = {name: [after[name] - before[name] for before, after in pairwise(counts)] for name in counts[0]}
        assert [name for name, numbers in grown.items() if min(numbers) < 0] == []
        follow = [name for name, numbers in grown.items() if numbers[_NEW - 1] > 0 and not any(numbers[_NEW:])]
        assert follow or not grown, grown


def _step(bridge: northbridge.Bridge, device: torch.device, size: int) -> None:
    weight = torch.ones(3, 11, device=device, requires_grad=True)
    inputs = torch.ones(size, 3).to(device)
    torch.autograd.backward((inputs @ weight).relu().sum())
    bridge.after_backward()
    with torch.no_grad():
        weight -= 0.1 * weight
    bridge.after_step()
