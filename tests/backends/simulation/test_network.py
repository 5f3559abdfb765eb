"""Two nodes on one machine leave nothing behind."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.backends.simulation.jobs import nodes as nodes
from tests.backends.simulation.network import processes_in, two_nodes
from tests.scripts import is_alive, start_python

HOLD = "from tests.backends.simulation.network import two_nodes\nwith two_nodes() as nodes:\n"
SAY = "    print(*(node.network for node in nodes), flush=True)\n    input()\n"


@pytest.mark.parametrize("ended", [None, signal.SIGINT, signal.SIGKILL], ids=["at the end", "Ctrl-C", "SIGKILL"])
@pytest.mark.usefixtures("nodes")
def test_nothing_is_left_of_the_two_nodes(ended: signal.Signals | None) -> None:
    process = start_python("-c", HOLD + SAY, folder=Path(__file__).parents[3], stdin=subprocess.PIPE)
    assert process.stdout is not None
    networks = [int(each) for each in process.stdout.readline().split()]
    left = [pid for network in networks for pid in processes_in(network)]
    assert (len(networks), len(left)) == (2, 2)

    if ended:
        process.send_signal(ended)
    process.communicate("go on\n", timeout=60)

    deadline = time.monotonic() + 30
    while any(map(is_alive, left)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [processes_in(network) for network in networks] == [[], []]


@pytest.mark.usefixtures("nodes")
def test_a_process_that_runs_on_a_node_ends_with_it() -> None:
    with two_nodes() as (first, _):
        process = subprocess.Popen([*first.inside, "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

    with process:
        assert process.wait(30) == -signal.SIGKILL
