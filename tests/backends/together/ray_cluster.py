"""Two nodes of Ray on this machine: a training whose second worker is killed, and two trials of Ray Tune.

``FOLDER STRATEGIES`` names the folder for what each process finds, and the strategies after RayDDPStrategy.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray  # pyright: ignore[reportMissingImports]
from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

EPOCHS = 3


def train(config: dict[str, str]) -> None:
    """Train on the simulated Gaudi; the first time, rank 1 is killed after two epochs."""
    from lightning.pytorch import Callback
    from ray.train import get_all_reported_checkpoints, get_checkpoint, get_context  # pyright: ignore[reportMissingImports]
    from ray.train.lightning import RayTrainReportCallback  # pyright: ignore[reportMissingImports]
    from tests.backends.together.ray_model import expected, fit

    class Killed(Callback):
        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.current_epoch == 2 and trainer.global_rank == 1:
                get_all_reported_checkpoints()  # waits until they are kept
                os.kill(os.getpid(), signal.SIGKILL)

    rank, kept = get_context().get_world_rank(), get_checkpoint()
    if kept is None:
        fit("hpu", "ddp", EPOCHS, RayTrainReportCallback(), Killed())
        return
    with kept.as_directory() as folder:
        found: dict[str, Any] = {
            "ddp": fit("hpu", "ddp", EPOCHS, path=f"{folder}/{RayTrainReportCallback.CHECKPOINT_NAME}")
        }
    for name in filter(None, config["strategies"].split(",")):
        found[name] = fit("hpu", name, 1)
    found |= {
        "expected": expected(EPOCHS),
        "node": get_context().get_node_rank(),
        **{name: os.environ.get(name) for name in ("HABANA_VISIBLE_MODULES", "HLS_MODULE_ID")},
    }
    Path(config["folder"], f"rank-{rank}.json").write_text(json.dumps(found))


def trial(config: dict[str, Any]) -> None:
    """Train on the simulated Teco card while the other trial does; Ray counts its devices as a custom resource."""
    os.environ["NORTHBRIDGE_SIMULATE"] = "sdaa"
    import time

    from lightning.pytorch import Trainer
    from lightning.pytorch.demos.boring_classes import BoringModel
    from ray import tune  # pyright: ignore[reportMissingImports]

    trainer = Trainer(
        accelerator="sdaa", devices=config["devices"], fast_dev_run=True, logger=False, enable_model_summary=False
    )
    began = time.time()
    trainer.fit(BoringModel())
    Path(config["folder"], f"{config['devices']}.done").touch()
    while len(list(Path(config["folder"]).glob("*.done"))) < 2:
        time.sleep(0.1)
    tune.report({"device": str(trainer.strategy.root_device), "began": began, "ended": time.time()})


def main(folder: str, strategies: str) -> None:
    """Start the nodes, run both, and stop the nodes."""
    node: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    node |= {"resources": {"HPU": 1, "sdaa": 1}}
    environ = {"NORTHBRIDGE_SIMULATE": "hpu"}
    files = tempfile.mkdtemp(prefix="ray-")  # in a folder of pytest's, the paths of Ray's sockets are too long
    # And not temp_dir: the Cluster writes its address into the default folder, and does not make that.
    os.environ["RAY_TMPDIR"] = files
    first = {**node, "env_vars": {**environ, "HABANA_VISIBLE_MODULES": "0,1"}}
    cluster = Cluster(initialize_head=True, head_node_args=first)
    try:
        # Ray tells nodes apart by their addresses.
        cluster.add_node(**node, node_ip_address="127.0.0.2", env_vars={**environ, "HABANA_VISIBLE_MODULES": "2,3"})
        ray.init(address=cluster.address)
        from ray import tune  # pyright: ignore[reportMissingImports]
        from ray.train import FailureConfig, RunConfig, ScalingConfig  # pyright: ignore[reportMissingImports]
        from ray.train.torch import TorchTrainer  # pyright: ignore[reportMissingImports]

        TorchTrainer(
            train,
            train_loop_config={"folder": folder, "strategies": strategies},
            scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"HPU": 1}),
            run_config=RunConfig(storage_path=f"{folder}/ray", failure_config=FailureConfig(max_failures=1)),
        ).fit()
        trials = tune.Tuner(
            tune.with_resources(trial, {"CPU": 1, "sdaa": 1}),
            param_space={"devices": tune.grid_search([1, "auto"]), "folder": folder},
            run_config=tune.RunConfig(storage_path=f"{folder}/tune", verbose=0),
        ).fit()
        Path(folder, "trials.json").write_text(json.dumps([each.metrics for each in trials], default=str))
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(files, ignore_errors=True)  # what Ray's processes write while they end


if __name__ == "__main__":
    main(*sys.argv[1:])
