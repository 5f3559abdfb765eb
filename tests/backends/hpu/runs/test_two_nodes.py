"""Two nodes that only a network joins: 2 × 2 ranks, launched as the Habana documentation says.

Where no network can be made, test_documented_examples.py trains on two nodes that share a loopback address.
"""

from __future__ import annotations

from tests.backends.simulated.runs.two_nodes import TwoNodes


class TestTwoNodes(TwoNodes):
    # The same modules on both, whatever cards those are.
    places = (
        "rank 0: node 0, card 6, module 0",
        "rank 1: node 0, card 5, module 1",
        "rank 2: node 1, card 7, module 0",
        "rank 3: node 1, card 6, module 1",
    )
