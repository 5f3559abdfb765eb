"""The environment of the processes that the suite starts."""

from __future__ import annotations

import pytest

from northbridge_conformance.runs import run_environment as room


@pytest.mark.parametrize(
    "variable", ["RANK", "GROUP_RANK", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "_NORTHBRIDGE_LAUNCHER"]
)
def test_launchers_variables_do_not_reach_the_ranks(variable: str) -> None:
    assert room.tells_of_a_launcher(variable)


@pytest.mark.parametrize("variable", ["PATH", "PYTHONPATH", "NORTHBRIDGE_SIMULATE", "OMP_NUM_THREADS"])
def test_other_variables_do(variable: str) -> None:
    assert not room.tells_of_a_launcher(variable)


@pytest.mark.parametrize(("variable", "is_read"), [("OMP_NUM_THREADS", True), ("LD_PRELOAD", True), ("ACME_X", False)])
def test_variables_of_other_software(variable: str, is_read: bool) -> None:
    assert room.is_read_by_others(variable) is is_read


def test_ranks_of_the_suite_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("PATH", "/bin")

    found = room.environ_of_runs()

    assert (found["OMP_NUM_THREADS"], found["OPENBLAS_NUM_THREADS"], found.get("RANK"), found["PATH"]) == (
        "1",
        "1",
        None,
        "/bin",
    )
