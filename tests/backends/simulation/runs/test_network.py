"""Two nodes on one machine leave nothing behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from tests.backends.simulation.runs.fixtures import nodes as nodes
from tests.backends.simulation.runs.network import processes_in, two_nodes
from tests.scripts import start_python

HOLD = "from tests.backends.simulation.runs.network import two_nodes\nwith two_nodes() as nodes:\n"
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
    process = start_python("-c", HOLD + SAY + rest, folder=Path(__file__).parents[4], stdin=subprocess.PIPE)
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


@pytest.mark.usefixtures("nodes")
def test_a_process_that_runs_on_a_node_ends_with_it() -> None:
    with two_nodes() as (first, _):
        process = subprocess.Popen([*first.inside, "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

    with process:
        assert process.wait(30) == -signal.SIGKILL
