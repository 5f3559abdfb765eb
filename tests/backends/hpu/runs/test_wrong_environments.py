"""Wrong environments of a run, each reported before anything can hang."""

from __future__ import annotations

import socket

import pytest
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.runs.fixtures import Start
from tests.backends.simulation.runs.jobs import Job
from tests.backends.simulation.runs.network import Node

ONE_NODE = ("devices=2",)
TWO_NODES = ("devices=2", "num_nodes=2")
DOCUMENTED = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "NODE_RANK": "1"}

SHOWN_COMMAND = "NODE_RANK=1 WORLD_SIZE=2 NORTHBRIDGE_SIMULATE=hpu python train.py devices=2 num_nodes=2"

OF_TWO_NODES = {
    "MASTER_PORT left out": (
        {"MASTER_PORT": None},
        (
            "ClusterError: MASTER_PORT is not set on node 1 (host {host}): each of the 2 nodes would choose another"
            " port, and they would not meet. Fix: export one free port, the same on every node: MASTER_PORT=29500"
        ),
    ),
    "MASTER_ADDR left out": (
        {"MASTER_ADDR": None},
        (
            "ClusterError: MASTER_ADDR is not set on node 1 (host {host}): this node would look for node 0 at"
            " 127.0.0.1, on itself. Fix: export MASTER_ADDR=<the address of node 0 that the other nodes reach>"
        ),
    ),
    "NODE_RANK missing": (
        {"NODE_RANK": None},
        (
            "ClusterError: NODE_RANK is not set on host {host}: each of the 2 nodes would act as node 0."
            " Fix: export NODE_RANK, 0 on the first node, 1 on the next; where there is one node, unset it"
        ),
    ),
    "WORLD_SIZE wrong": (
        {"WORLD_SIZE": "2"},
        (
            "ClusterError: WORLD_SIZE='2' on node 1 (host {host}): with num_nodes=2 and devices=2 there are 4"
            " processes. Fix: unset WORLD_SIZE, which Lightning works out, or change num_nodes= or devices="
        ),
    ),
}
OF_ONE_NODE = {
    "a stale LOCAL_RANK": (
        {"LOCAL_RANK": "0"},
        (
            "ClusterError: MASTER_PORT is not set on host {host}: LOCAL_RANK='0' says that each rank is started"
            " alone, and each would choose another port. Fix: unset LOCAL_RANK if it is left over, or export one free"
            " port, the same on every node: MASTER_PORT=29500"
        ),
    ),
    "a LOCAL_RANK of another run": (
        {"LOCAL_RANK": "5"},
        (
            "ClusterError: LOCAL_RANK='5' on host {host}: with num_nodes=1 and devices=2 it must be from 0 to 1. Fix:"
            " unset LOCAL_RANK, or count it from 0 if you start each process yourself"
        ),
    ),
    "HLS_MODULE_ID inherited by all ranks": (
        {"HLS_MODULE_ID": "3"},
        ("SettingsError: HLS_MODULE_ID=3 is set, but this rank's card is module 0 of 0,1,2,3,4,5,6,7. Fix: unset it"),
    ),
    "too few modules": ({"HABANA_VISIBLE_MODULES": "0"}, "DevicesError: "),
    "modules that do not reach each other": (
        {"HABANA_VISIBLE_MODULES": "1,2"},
        (
            "SettingsError: HABANA_VISIBLE_MODULES='1,2' is not one of the vendor's sets: 0,1; 2,3;"
            " 4,5; 6,7; 0,1,2,3; 4,5,6,7; 0,1,2,3,4,5,6,7"
        ),
    ),
    "a module that is not there": (
        {"HABANA_VISIBLE_MODULES": "0,9"},
        "SettingsError: HABANA_VISIBLE_MODULES='0,9' names 9; found 0, 1, 2, 3, 4, 5, 6, 7",
    ),
    "migration from CUDA": (
        {"PT_HPU_GPU_MIGRATION": "1"},
        ("SettingsError: PT_HPU_GPU_MIGRATION redirects torch.cuda to the HPU, and 'nccl' to 'hccl'. Fix: unset it"),
    ),
    "collectives that do nothing": (
        {"PT_HPU_EMULATE_DISTRIBUTED": "1"},
        ("SettingsError: PT_HPU_EMULATE_DISTRIBUTED skips collectives. Fix: unset it"),
    ),
    "torchcomms": (
        {"TORCH_DISTRIBUTED_USE_TORCHCOMMS": "1"},
        ("VariableError: TORCH_DISTRIBUTED_USE_TORCHCOMMS is set, but torchcomms has no 'hccl'. Fix: unset it"),
    ),
}


def assert_rejected(start: Start, sentence: str, script: str, *arguments: str, **environ: str) -> Job:
    job = start(script, *arguments, afresh=script == "vendor_first.py", **environ)
    status = job.end(limit_s=120)  # far less than the half hour after which a process group gives up

    assert status == 1, job.said
    assert sentence.format(host=socket.gethostname()) in job.said
    return job


@pytest.mark.parametrize(("wrong", "sentence"), OF_TWO_NODES.values(), ids=OF_TWO_NODES)
@pytest.mark.parametrize("script", ["train.py", "vendor_first.py"])
def test_a_node_says_what_is_wrong(start: Start, script: str, wrong: dict[str, str | None], sentence: str) -> None:
    """In a script that imports the vendor's package first too, which fills in MASTER_ADDR and MASTER_PORT."""
    environ = {name: value for name, value in {**DOCUMENTED, **wrong}.items() if value is not None}

    job = assert_rejected(start, sentence, script, *TWO_NODES, **environ)

    if "WORLD_SIZE" in wrong:
        GAUDI.page.assert_shown(SHOWN_COMMAND, job.said)


@pytest.mark.parametrize(("wrong", "sentence"), OF_ONE_NODE.values(), ids=OF_ONE_NODE)
def test_a_server_says_what_is_wrong(start: Start, wrong: dict[str, str], sentence: str) -> None:
    assert_rejected(start, sentence, "train.py", *ONE_NODE, **wrong)


def test_both_nodes_warn_of_localhost(start: Start, nodes: tuple[Node, Node], documented: list[dict[str, str]]) -> None:
    """It is right if both nodes share a machine, so it is an error only once they have not met."""
    jobs = [
        start("train.py", *TWO_NODES, inside=node.inside, **{**environ, "MASTER_ADDR": "localhost"})
        for node, environ in zip(nodes, documented, strict=True)
    ]

    for number, job in enumerate(jobs):
        job.wait_for(f"MASTER_ADDR='localhost' on node {number} (host ")
        job.wait_for("): a loopback address leads each node to itself. Fix: unless all 2 nodes share")
