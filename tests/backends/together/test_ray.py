"""Ray's strategies on the simulated chips, with Ray itself, on two nodes of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backends.together.environment import environment_on
from tests.engines import needs_engines, with_engines
from tests.scripts import run_script

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
OTHERS = ("fsdp", "float16", "deepspeed")
CLOSE = {"float16": 5e-2}  # its scaler begins too high, and leaves the first step out

pytestmark = [needs_engines, pytest.mark.timeout(600)]  # the whole cluster is set up for the first test


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything that the processes of the cluster found."""
    folder = tmp_path_factory.mktemp("cluster")
    plain = {**environment_on("cpu", folder), "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    environ = with_engines({**plain, "OMP_NUM_THREADS": "1"})
    script, others = HERE / "ray_cluster.py", ",".join(OTHERS)
    done = run_script(script, str(folder), others, folder=folder, environ=environ, limit=540)
    files = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
    assert set(files) == {"rank-0", "rank-1", "trials"}, done.said
    return files


class TestCluster:
    def test_each_worker_has_a_card_of_its_own(self, cluster: dict[str, Any]) -> None:
        ranks = [cluster["rank-0"], cluster["rank-1"]]

        assert sorted(each["node"] for each in ranks) == [0, 1]
        assert sorted(each["HABANA_VISIBLE_MODULES"] for each in ranks) == ["0", "2"]  # Ray's choice, by node
        assert [each["HLS_MODULE_ID"] for each in ranks] == [each["HABANA_VISIBLE_MODULES"] for each in ranks]

    def test_process_group_is_over_the_chips_library(self, cluster: dict[str, Any]) -> None:
        first = cluster["rank-0"]["ddp"]

        assert (first["before"], first["library"], first["device"]) == ("gloo", "hccl", "hpu:0")

    def test_killed_worker_resumes_from_the_checkpoint(self, cluster: dict[str, Any]) -> None:
        resumed, expected = cluster["rank-1"]["ddp"], cluster["rank-1"]["expected"]

        assert resumed["step"] == len(expected) == 9
        assert resumed["losses"] == pytest.approx(expected[6:], rel=1e-5)

    @pytest.mark.parametrize("name", OTHERS)
    def test_other_strategies_train_as_ddp_does(self, name: str, cluster: dict[str, Any]) -> None:
        rank = cluster["rank-1"]

        assert rank[name]["losses"] == pytest.approx(rank["expected"][:3], rel=CLOSE.get(name, 1e-5))

    def test_trials_of_tune_train_side_by_side(self, cluster: dict[str, Any]) -> None:
        first, second = cluster["trials"]

        assert {first["device"], second["device"]} == {"sdaa:0", "sdaa:1"}
        assert max(first["began"], second["began"]) < min(first["ended"], second["ended"])
