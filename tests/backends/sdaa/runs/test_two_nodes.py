"""Two nodes that only a network joins: 2 × 2 ranks."""

from __future__ import annotations

from tests.backends.simulated.runs.two_nodes import TwoNodes


class TestTwoNodes(TwoNodes):
    places = (
        "rank 0: node 0, device 0",
        "rank 1: node 0, device 1",
        "rank 2: node 1, device 0",
        "rank 3: node 1, device 1",
    )
