"""Two nodes that only a network joins: 2 × 2 ranks, launched as vendors' documentations say.

Where no network can be made, hpu's test_documented_examples.py trains on two nodes that share a loopback address.
"""

from __future__ import annotations

import re

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.runs.fixtures import Start
from tests.backends.simulation.runs.network import Node


class TestTwoNodes:
    """The chip's own ``train.py``, with two devices on each node."""

    def test_four_ranks_on_two_nodes_train_one_model(
        self, sim: SimChip, start: Start, nodes: tuple[Node, Node], documented: list[dict[str, str]]
    ) -> None:
        jobs = [
            start("train.py", "devices=2", "num_nodes=2", inside=node.inside, **environ)
            for node, environ in zip(nodes, documented, strict=True)
        ]

        assert [job.end() for job in jobs] == [0, 0], "\n".join(job.said for job in jobs)

        assert tuple(re.findall(r"rank \d: node .+", jobs[0].said)) == sim.places
        assert "the ranks hold 1 set of weights" in jobs[0].said
        for node, job in enumerate(jobs):
            command = f"NODE_RANK={node} NORTHBRIDGE_SIMULATE={sim.name} python train.py devices=2 num_nodes=2"
            sim.page.assert_shown(command, job.said)
