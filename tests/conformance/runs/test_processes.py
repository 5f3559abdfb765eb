"""The environment of the processes that the suite starts, and the ports at which they meet."""

from __future__ import annotations

import socket

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from northbridge_conformance.runs.processes import (
    MOST_HELD,
    environ_of_runs,
    is_read_by_others,
    reserve_port,
    tells_of_a_launcher,
)


@pytest.mark.parametrize(
    "variable", ["RANK", "GROUP_RANK", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "_NORTHBRIDGE_LAUNCHER"]
)
def test_launchers_variables_do_not_reach_the_ranks(variable: str) -> None:
    assert tells_of_a_launcher(variable)


@pytest.mark.parametrize("variable", ["PATH", "PYTHONPATH", "NORTHBRIDGE_SIMULATE", "OMP_NUM_THREADS"])
def test_other_variables_do(variable: str) -> None:
    assert not tells_of_a_launcher(variable)


@pytest.mark.parametrize(("variable", "is_read"), [("OMP_NUM_THREADS", True), ("LD_PRELOAD", True), ("ACME_X", False)])
def test_variables_of_other_software(variable: str, is_read: bool) -> None:
    assert is_read_by_others(variable) is is_read


def test_ranks_of_the_suite_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("PATH", "/bin")

    found = environ_of_runs()

    assert (found["OMP_NUM_THREADS"], found["OPENBLAS_NUM_THREADS"], found.get("RANK"), found["PATH"]) == (
        "1",
        "1",
        None,
        "/bin",
    )


def test_a_rank_listens_there() -> None:
    port = reserve_port()

    store = TCPStore("127.0.0.1", port, 1, is_master=True)

    assert store.port == port


def test_nobody_else_gets_it_who_asks_for_any_port() -> None:
    reserved = {reserve_port() for _ in range(MOST_HELD)}

    given = set()
    for _ in range(30_000):  # twice as many as there are
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            given.add(other.getsockname()[1])

    assert not reserved & given
    assert len(reserved) == MOST_HELD


def test_no_more_are_held_than_a_process_may_have_files_open() -> None:
    first, *_ = [reserve_port() for _ in range(MOST_HELD + 1)]

    with socket.socket() as other:
        other.bind(("127.0.0.1", first))  # without SO_REUSEADDR
