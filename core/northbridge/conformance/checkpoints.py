"""Checkpoints that open on any chip, or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from northbridge.conformance.scenario import Outcome, Scenario, run
from northbridge.conformance.suite import FABRICS, TRAINERS, FaceSuite, one_and_several_devices

_OPEN = """
import json, sys
for name in ("northbridge", "lightning", "pytorch_lightning"):
    sys.modules[name] = None  # any import of it fails
import torch
devices, weights = set(), 0
def walk(value):
    global weights
    if isinstance(value, torch.Tensor):
        devices.add(str(value.device))
        weights += 1
    elif isinstance(value, dict):
        for each in value.values(): walk(each)
    elif isinstance(value, (list, tuple)):
        for each in value: walk(each)
walk(torch.load(sys.argv[1], weights_only=True))
print(json.dumps({"devices": sorted(devices), "tensors": weights}))
"""


class Checkpoints(FaceSuite):
    """A checkpoint of the chip is a checkpoint of the CPU, and the other way round.

    A resumed run is compared with one that Lightning resumed on the CPU. Of more than two ranks, one that never stopped
    has other last bits: DDP groups the gradients of a run's first step otherwise than those after it.
    """

    runs = one_and_several_devices(*TRAINERS, *FABRICS)

    def test_it_opens_where_there_is_no_northbridge_and_no_lightning(self, chip: Outcome) -> None:
        found = _open_without_northbridge(chip)

        assert found["devices"] == ["cpu"]
        assert found["tensors"] > 10

    def test_a_run_that_saves_trains_the_weights_of_a_cpu_run(self, chip: Outcome, cpu: Outcome) -> None:
        assert chip.each("saving", "weights") == cpu.each("saving", "weights")

    def test_a_cpu_checkpoint_resumes_on_the_chip(self, chip: Outcome, cpu: Outcome) -> None:
        assert chip.each("resuming", "weights") == cpu.each("resuming", "weights")


class CheckpointsOnTheCPU(FaceSuite):
    """Lightning's own run on the CPU goes on where the chip's ended."""

    runs = one_and_several_devices(TRAINERS[0], FABRICS[0])

    def test_a_checkpoint_of_the_chip_resumes_on_the_cpu(
        self, face: str, devices: int, chip: Outcome, cpu: Outcome
    ) -> None:
        resumed = run(Scenario("cpu", face, ("resuming",), devices, resume=str(chip.folder)))

        assert resumed.each("resuming", "weights") == cpu.each("resuming", "weights")


def _open_without_northbridge(outcome: Outcome) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-I", "-c", _OPEN, str(outcome.folder / "epoch=1.ckpt")],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found
