"""Wrong environments of a run, each reported before anything can hang."""

from __future__ import annotations

import socket

import pytest
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.runs.fixtures import Start
from tests.backends.simulation.runs.jobs import Job
from tests.backends.simulation.runs.network import Node

TWO_NODES = ("devices=2", "num_nodes=2")
DOCUMENTED = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "NODE_RANK": "1"}

SHOWN_COMMAND = "NODE_RANK=1 WORLD_SIZE=2 NORTHBRIDGE_SIMULATE=hpu python train.py devices=2 num_nodes=2"

# Where the script imports the vendor's package first, that fills in MASTER_ADDR and MASTER_PORT.
OF_TWO_NODES = {
    "MASTER_PORT left out": (
        "vendor_first.py",
        {"MASTER_PORT": None},
        (
            "ClusterError: MASTER_PORT is not set on node 1 (host {host}): each of the 2 nodes would choose another"
            " port, and they would not meet. Fix: export one free port, the same on every node: MASTER_PORT=29500"
        ),
    ),
    "MASTER_ADDR left out": (
        "vendor_first.py",
        {"MASTER_ADDR": None},
        (
            "ClusterError: MASTER_ADDR is not set on node 1 (host {host}): this node would look for node 0 at"
            " 127.0.0.1, on itself. Fix: export MASTER_ADDR=<the address of node 0 that the other nodes reach>"
        ),
    ),
    "NODE_RANK missing": (
        "train.py",
        {"NODE_RANK": None},
        (
            "ClusterError: NODE_RANK is not set on host {host}: each of the 2 nodes would act as node 0."
            " Fix: export NODE_RANK, 0 on the first node, 1 on the next; where there is one node, unset it"
        ),
    ),
    "WORLD_SIZE wrong": (
        "train.py",
        {"WORLD_SIZE": "2"},
        (
            "ClusterError: WORLD_SIZE='2' on node 1 (host {host}): with num_nodes=2 and devices=2 there are 4"
            " processes. Fix: unset WORLD_SIZE, which Lightning works out, or change num_nodes= or devices="
        ),
    ),
}


def assert_rejected(start: Start, sentence: str, script: str, *arguments: str, **environ: str) -> Job:
    job = start(script, *arguments, afresh=script == "vendor_first.py", **environ)
    status = job.end(limit_s=120)  # far less than the half hour after which a process group gives up

    assert status == 1, job.said
    assert sentence.format(host=socket.gethostname()) in job.said
    return job


@pytest.mark.parametrize(("script", "wrong", "sentence"), OF_TWO_NODES.values(), ids=OF_TWO_NODES)
def test_a_node_says_what_is_wrong(start: Start, script: str, wrong: dict[str, str | None], sentence: str) -> None:
    environ = {name: value for name, value in {**DOCUMENTED, **wrong}.items() if value is not None}

    job = assert_rejected(start, sentence, script, *TWO_NODES, **environ)

    if "WORLD_SIZE" in wrong:
        GAUDI.page.assert_shown(SHOWN_COMMAND, job.said)


def test_a_module_that_all_ranks_inherit_is_refused(start: Start) -> None:
    sentence = (
        "SettingsError: HLS_MODULE_ID=3 is set, but this rank's card is module 0 of 0,1,2,3,4,5,6,7. Fix: unset it"
    )

    assert_rejected(start, sentence, "train.py", "devices=2", HLS_MODULE_ID="3")


def test_both_nodes_warn_of_localhost(start: Start, nodes: tuple[Node, Node], documented: list[dict[str, str]]) -> None:
    """It is right if both nodes share a machine, so it is an error only once they have not met."""
    jobs = [
        start("train.py", *TWO_NODES, inside=node.inside, **{**environ, "MASTER_ADDR": "localhost"})
        for node, environ in zip(nodes, documented, strict=True)
    ]

    for number, job in enumerate(jobs):
        job.wait_for(f"MASTER_ADDR='localhost' on node {number} (host ")
        job.wait_for("): a loopback address leads each node to itself. Fix: unless all 2 nodes share")
