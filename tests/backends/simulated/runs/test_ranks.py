"""Ranks of a script: one on each card of a server, one that is killed, and 2 x 2 on two nodes that a network joins.

Where no network can be made, hpu's test_documented_examples.py trains on two nodes that share a loopback address.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.runs.fixtures import Run, Start
from tests.backends.simulation.runs.network import Node

from northbridge_cpu_sim import Server


class TestKilledRank:
    """One of two ranks is killed: the other ends."""

    @pytest.fixture(autouse=True)
    def _no_card_is_held_any_more(self, sim: SimChip, server: Server) -> Iterator[None]:
        yield
        if sim.server is not None:
            assert [server.holder(card) for card in range(sim.cards)] == [None] * sim.cards

    def test_the_other_ends_and_names_it(self, sim: SimChip, start: Start, mode: dict[str, str]) -> None:
        job = start("killed_rank.py", sim.name, "1", **mode)

        status = job.end()  # which waits for all processes of the job

        # Where the first rank waits at its end for those that died, Lightning, which watches them, kills it.
        assert status in (1, -signal.SIGKILL), job.said
        told = re.search(r"^(\[rank0\]: )?rank 1 \(process \d+\) was killed by SIGKILL$", job.said, flags=re.M)
        assert told, job.said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python killed_rank.py {sim.name} 1", job.said)

    def test_where_the_first_is_killed_no_rank_outlives_it(self, sim: SimChip, start: Start) -> None:
        job = start("killed_rank.py", sim.name, "0")

        assert job.end() == -signal.SIGKILL


class TestEightRanks:
    """The chip's own ``train.py``, which says of each rank where it ran, on as many cards as there are."""

    def test_every_rank_holds_another_card(self, sim: SimChip, run: Run) -> None:
        said = run("train.py", f"devices={sim.cards}")

        held = re.findall(r"^rank (\d+): node 0, (.+)$", said, flags=re.M)
        everyone = list(range(sim.cards))
        assert [int(rank) for rank, _ in held] == everyone
        # A card, and by what other number the vendor knows it.
        for numbers in zip(*(re.findall(r"\d+", place) for _, place in held), strict=True):
            assert sorted(map(int, numbers)) == everyone
        assert sim.eight_ranks in said.splitlines()
        assert "the ranks hold 1 set of weights" in said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python train.py devices={sim.cards}", said)


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


# Launchers are the core's concern: each of them with one of the chips.
PAGE = (Path(__file__).parents[4] / "docs/multi-node.md").read_text(encoding="utf-8").splitlines()
LAUNCHERS = {"hpu": ("PALS", "MVAPICH", "srun"), "sdaa": ("Open MPI", "PMIx", "Hydra in a job of SLURM")}

SHOWN = {
    name: [line for line in PAGE if line.startswith(f"{name}: ")] for names in LAUNCHERS.values() for name in names
}


class TestLaunchers:
    """A script that sets what each launcher sets, and nothing of MPI or SLURM besides."""

    def test_the_ranks_of_each_launcher_meet(
        self, sim: SimChip, start: Start, nodes: tuple[Node, Node], documented: list[dict[str, str]]
    ) -> None:
        addresses = [node.address for node in nodes]
        unset = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NODE_RANK")
        alike = [{name: text for name, text in each.items() if name not in unset} for each in documented]
        jobs = [
            start("launchers.py", sim.name, str(index), *addresses, *LAUNCHERS[sim.name], inside=node.inside, **environ)
            for index, (node, environ) in enumerate(zip(nodes, alike, strict=True))
        ]

        assert [job.end() for job in jobs] == [0, 0], "\n".join(job.said for job in jobs)

        for launcher in LAUNCHERS[sim.name]:
            lines = [line for job in jobs for line in job.said.splitlines() if line.startswith(f"{launcher}: ")]
            environment = "SLURMEnvironment" if launcher == "srun" else "MpiexecEnvironment"
            assert sorted(line.partition(f", {environment}, ")[0] for line in lines) == [
                f"{launcher}: rank {rank} of 4, node {rank // 2}, device {rank % 2}" for rank in range(4)
            ]
            assert not SHOWN[launcher] or all(line.partition(", weights")[0] in SHOWN[launcher] for line in lines)
            ends = {line.partition(f", {environment}, ")[2] for line in lines}
            assert len(ends) == 1  # one meeting point, and one set of weights
            assert re.match(rf"{addresses[0]}:(16|15)\d\d\d, weights [0-9a-f]+$", ends.pop())

        said = [line for job in jobs for line in job.said.splitlines() if line.startswith("HYBRID_SHARD: ")]
        assert sorted(said) == [
            f"HYBRID_SHARD: rank {rank} holds 33 of 66 in [[0, 1], [2, 3]]" for rank in range(4)
        ]  # and its weights are DDP's
