"""The trials of the matrix on each release, and their conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forks.suite import fork_runs
from tests.matrix.releases import Pair, lay_over

from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario, reference
from northbridge_conformance.tests.lightning.precision import train_mixed
from northbridge_conformance.tests.lightning.training import train

CHIP = "cpu_sim"

fork_runs()


@dataclass(frozen=True)
class Trial:
    """One training on the chip.

    In float32 its weights have to equal, to the bit, those of the same training on Lightning's CPU accelerator. In
    mixed precision they need not: the chip autocasts torch's list of operators for CUDA, the CPU another. There the
    ranks have to agree, and the model to have computed in bfloat16.
    """

    title: str
    step: Callable[[Scenario, Path], None]
    namespaces: tuple[str, ...]
    devices: int
    strategy: str = "auto"
    mixed: bool = False
    by_auto: bool = False
    """True if the user writes ``accelerator="auto"``, and ``NORTHBRIDGE_SIMULATE`` names the chip."""


TRAINERS, FABRICS = ("lightning.pytorch", "pytorch_lightning"), ("lightning.fabric", "lightning_fabric")

TRIALS = (
    Trial("auto", train, TRAINERS, devices=1, by_auto=True),
    Trial("2 ranks, bf16-mixed", train_mixed, TRAINERS, devices=2, mixed=True),
    Trial("2 ranks, ddp_spawn", train, TRAINERS, devices=2, strategy="ddp_spawn"),
    Trial("Fabric, 2 ranks", train, FABRICS, devices=2),
)


def differences(pair: Pair, trial: Trial) -> list[str]:
    """Return what went wrong in ``trial`` on ``pair``, a sentence each; an empty list is a pass."""
    wrong = []
    for namespace in trial.namespaces:
        try:
            ours = _train(pair, trial, namespace, on_chip=True)
            expected = (
                ours[0]["weights"] if trial.mixed else _train(pair, trial, namespace, on_chip=False)[0]["weights"]
            )
        except RuntimeError as error:
            where = "the CPU's run" if "accelerator='cpu'" in str(error) else "the chip's run"
            wrong.append(f"{namespace}: {where}: {str(error).splitlines()[-1]}")
            continue
        for rank, found in enumerate(ours):
            if found["weights"] != expected:
                wrong.append(
                    f"{namespace}: the weights of rank {rank} differ from {'rank 0' if trial.mixed else 'the CPU'}'s"
                )
            if not found["root device"].startswith(f"{CHIP}:"):
                wrong.append(f"{namespace}: rank {rank} trained on {found['root device']}")
            if trial.mixed and found["scores"] != ["torch.bfloat16"]:
                wrong.append(f"{namespace}: the model of rank {rank} computed in {found['scores']}")
        if len(ours) != trial.devices:
            wrong.append(f"{namespace}: {len(ours)} ranks trained")
    return wrong


def _train(pair: Pair, trial: Trial, namespace: str, *, on_chip: bool) -> list[dict[str, Any]]:
    environ = {"PYTHONPATH": str(lay_over(pair))}
    accelerator = CHIP if on_chip else "cpu"
    if on_chip and trial.by_auto:
        accelerator = "auto"
        environ["NORTHBRIDGE_SIMULATE"] = CHIP
    scenario = Scenario(
        accelerator=accelerator,
        namespace=namespace,
        steps=(reference(trial.step),),
        devices=trial.devices,
        strategy=trial.strategy,
        models=("mlp",),
    )
    return run(scenario, environ).findings[f"{trial.step.__name__} {scenario.models[0]}"]
