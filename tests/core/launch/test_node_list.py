"""Lists of a job's nodes: PBS's file and SLURM's brackets."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from northbridge.errors import ClusterError
from northbridge.launch.node_list import NodeList, expand

HERE = socket.gethostname()


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[1-7:3],m2", ["n1", "n4", "n7", "m2"]),
        ("rack[0-1]n[1-2].local", ["rack0n1.local", "rack0n2.local", "rack1n1.local", "rack1n2.local"]),
        ("a b,c", ["a", "b", "c"]),
        ("10.77.0.[1,2]", ["10.77.0.1", "10.77.0.2"]),
    ],
)
def test_a_list_of_slurm_is_expanded(text: str, hosts: list[str]) -> None:
    assert list(expand(text, "SLURM_JOB_NODELIST")) == hosts


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n[a]", "n]", "n[0-99999999]", "n[1-2:0]", ",", "n[[1]]"])
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match=r"is not a list of nodes\. Fix: unset it, and export MASTER_ADDR") as caught:
        expand(text, "SLURM_JOB_NODELIST")

    assert caught.value.variable == "SLURM_JOB_NODELIST"


def test_pbs_file_names_each_host_once(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text(f"other.site\nother.site\n{HERE}.site\n{HERE}.site\n")

    listed = NodeList.read({"PBS_NODEFILE": str(file), "SLURM_JOB_NODELIST": "n1"})

    assert listed is not None
    assert listed.hosts == ("other.site", f"{HERE}.site")
    assert listed.position() == 1


@pytest.mark.parametrize(("text", "says"), [(None, "cannot be read ("), ("\n", "is empty. Fix: unset it")])
def test_a_file_without_nodes_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    file = tmp_path / "nodes"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ClusterError) as caught:
        NodeList.read({"PBS_NODEFILE": str(file)})

    assert str(caught.value).startswith(f"PBS_NODEFILE='{file}' {says}")


def test_a_step_reads_its_own_nodes() -> None:
    environ = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_STEP_NODELIST": "n[2-3]", "SLURMD_NODENAME": "n3"}

    job, step = NodeList.read(environ), NodeList.read(environ, step=True)

    assert (job and job.first, step and step.first, step and step.position()) == ("n1", "n2", 1)


def test_an_address_of_this_machine_is_found() -> None:
    listed = NodeList.read({"SLURM_JOB_NODELIST": "203.0.113.1,127.0.0.1"})

    assert listed is not None
    assert listed.position() == 1


def test_a_list_without_this_host_is_refused() -> None:
    listed = NodeList.read({"SLURM_JOB_NODELIST": "203.0.113.[1-2]"})
    assert listed is not None

    with pytest.raises(ClusterError) as caught:
        listed.position()

    assert str(caught.value) == (
        f"SLURM_JOB_NODELIST='203.0.113.[1-2]' names 203.0.113.1, 203.0.113.2, not this host, {HERE}. Fix: start"
        " inside the job, or unset SLURM_JOB_NODELIST and export MASTER_ADDR"
    )
