"""Two nodes that only a network joins: 2 × 2 ranks, launched as the Habana documentation says.

Where no network can be made, test_documented_examples.py trains on two nodes that share a loopback address.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.hpu.runs.conftest import Start
from tests.backends.hpu.runs.network import Node, processes_in, two_nodes
from tests.backends.hpu.runs.page import assert_shown

COMMAND = "NODE_RANK={} NORTHBRIDGE_SIMULATE=hpu python train.py devices=2 num_nodes=2"


def test_four_ranks_on_two_nodes_train_one_model(
    start: Start, nodes: tuple[Node, Node], documented: list[dict[str, str]]
) -> None:
    jobs = [
        start("train.py", "devices=2", "num_nodes=2", inside=node.inside, **environ)
        for node, environ in zip(nodes, documented, strict=True)
    ]

    assert [job.end() for job in jobs] == [0, 0], "\n".join(job.said for job in jobs)

    first, second = (job.said for job in jobs)
    # The same modules on both, whatever cards those are.
    assert re.findall(r"rank (\d): node (\d), card (\d), module (\d)", first) == [
        ("0", "0", "6", "0"),
        ("1", "0", "5", "1"),
        ("2", "1", "7", "0"),
        ("3", "1", "6", "1"),
    ]
    assert "the ranks hold 1 set of weights" in first
    assert_shown(COMMAND.format(0), first)
    assert_shown(COMMAND.format(1), second)


HOLD = "from tests.backends.hpu.runs.network import two_nodes\nwith two_nodes() as nodes:\n"
SAY = "    print(*(node.network for node in nodes), flush=True)\n"


@pytest.mark.parametrize(
    ("rest", "ended"),
    [
        ("    pass", None),
        ("    raise ValueError", None),
        ("    input()", signal.SIGINT),
        ("    input()", signal.SIGKILL),
    ],
    ids=["at the end", "after a failure", "after Ctrl-C", "after SIGKILL"],
)
@pytest.mark.usefixtures("nodes")
def test_nothing_is_left_of_the_two_nodes(rest: str, ended: signal.Signals | None) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD + SAY + rest],
        cwd=Path(__file__).parents[4],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    networks = [int(each) for each in process.stdout.readline().split()]
    assert len(networks) == 2
    left = [pid for network in networks for pid in processes_in(network)] if ended else []
    assert bool(left) == bool(ended)

    if ended:
        process.send_signal(ended)
    process.communicate(timeout=60)

    for pid in left:
        wait_for_end(pid)
    assert [processes_in(network) for network in networks] == [[], []]


def wait_for_end(pid: int) -> None:
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([watched], [], [], 30)[0], f"process {pid} lives"
    finally:
        os.close(watched)


def test_a_process_that_runs_on_a_node_ends_with_it() -> None:
    with two_nodes() as (first, _):
        process = subprocess.Popen([*first.inside, "sleep", "600"])

    assert process.wait(30) == -signal.SIGKILL
