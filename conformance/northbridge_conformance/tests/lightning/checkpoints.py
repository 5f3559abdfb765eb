"""Checkpoints that open on any chip, and on machines without one."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from functools import cache
from typing import Any

import pytest
import torch

import northbridge
from northbridge.processes.endings import describe_exit
from northbridge.processes.environment import python_command
from northbridge_conformance.rank_programs.checkpoints import FILE, INTERIM_MODEL, MODEL, SPOILT, views
from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.differences import differences_from_cpu
from northbridge_conformance.runs.hosts import build
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    Differences,
    NamespaceSuite,
    Runs,
    UsesSuite,
    in_each,
    one_and_several_devices,
    one_and_two_devices,
    shows,
)

_OPEN = """
import json, sys, traceback
for name in ("northbridge", "lightning", "pytorch_lightning"):
    sys.modules[name] = None  # any import of it fails
import torch
def walk(value):
    if isinstance(value, torch.Tensor):
        yield str(value.device)
    elif isinstance(value, (dict, list, tuple)):
        for each in value.values() if isinstance(value, dict) else value: yield from walk(each)
for line in sys.stdin:
    try:
        devices = list(walk(torch.load(json.loads(line), weights_only=True)))
        found = {"devices": sorted(set(devices)), "tensors": len(devices)}
    except Exception:
        found = {"failed": traceback.format_exc()}
    print(json.dumps(found), flush=True)
"""
"""Opens the files that it reads of, one a line."""


class Checkpoints(NamespaceSuite):
    """A checkpoint of the chip is a checkpoint of the CPU, and the other way round.

    A resumed run is compared with one that Lightning resumed on the CPU. With more than two ranks, a run that never
    stopped has other last bits, because DDP groups the gradients of a run's first step differently.
    """

    runs: Runs = one_and_several_devices(*TRAINERS, *FABRICS)
    advice = (
        "A checkpoint is made of copies to the host. Look at those of views, of every dtype, and of tensors that"
        " share memory; and at copies back into parameters."
    )

    @shows("checkpoint")
    def test_it_opens_where_there_is_no_northbridge_and_no_lightning(self, chip: RunResult) -> None:
        assert chip.ranks("checkpoints.save")
        found = _open_without_northbridge(chip)

        assert found["devices"] == ["cpu"]
        assert found["tensors"] > 10

    @shows("checkpoint")
    def test_a_run_that_saves_trains_the_weights_of_a_cpu_run(self, differences: Differences) -> None:
        assert differences("checkpoints.save", "weights") == []

    @shows("resume")
    def test_a_cpu_checkpoint_resumes_on_the_chip(self, differences: Differences) -> None:
        assert differences("checkpoints.resume", "weights") == []

    @shows("resume")
    def test_tied_weights_are_tied_in_a_run_that_is_taken_up(self, chip: RunResult) -> None:
        tied = len(list(build(MODEL).parameters()))

        assert set(chip.each("checkpoints.resume", "parameters")) == {tied}


class CheckpointsOnTheCPU(NamespaceSuite):
    """Lightning's own run on the CPU resumes where the chip's run ended."""

    runs: Runs = one_and_several_devices(TRAINERS[0], FABRICS[0])
    advice = "What the chip wrote is not what it had: look at copies to the host, and at the state of the optimizer."

    @shows("checkpoint")
    def test_a_checkpoint_of_the_chip_resumes_on_the_cpu(
        self, backend: str, namespace: str, devices: int, chip: RunResult, cpu: RunResult
    ) -> None:
        assert chip.ranks("checkpoints.save")
        resumed = run(Scenario("cpu", namespace, ("checkpoints.resume",), devices, resume=str(chip.folder)))

        found, expected = resumed.each("checkpoints.resume", "weights"), cpu.each("checkpoints.resume", "weights")
        assert differences_from_cpu(backend, found, expected) == []


class KeptCheckpoints(NamespaceSuite):
    """A checkpoint within a training is complete and leaves the model alone; a failed one leaves the old file alone."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    claims: tuple[str, ...] = ("checkpoint",)
    advice = (
        "A checkpoint copies tensors and moves none: look at whatever moves a module, or replaces its parameters,"
        " while it is saved. Northbridge writes beside the file and renames; a CheckpointIO of a vendor's has to do so"
        " too."
    )

    def test_the_model_stays_where_it_is(self, chip: RunResult, device: northbridge.Device) -> None:
        found = chip.only("checkpoints.interim")

        assert found["after"] == found["before"]
        assert {where for _, where, _ in found["after"]} == {str(device.root(0))}

    def test_the_training_goes_on_as_one_without_checkpoints(self, chip: RunResult) -> None:
        through = chip.only(f"training {INTERIM_MODEL}")

        assert chip.only("checkpoints.interim")["weights"] == through["weights"]

    def test_its_tensors_are_the_cpus_and_tied_weights_are_tied(self, chip: RunResult) -> None:
        found = chip.only("checkpoints.interim")

        assert found["devices"] == ["cpu"]
        assert found["tied"]

    def test_views_are_written_with_their_own_numbers(self, chip: RunResult) -> None:
        expected = {name: each.tolist() for name, each in views(torch.device("cpu")).items()}

        assert chip.only("checkpoints.interim")["views"] == expected

    def test_a_failed_save_leaves_the_old_file_alone(self, chip: RunResult) -> None:
        found = chip.only("checkpoints.interim")

        assert SPOILT in found["error"]
        assert found["whole while another was written"]
        assert found["whole afterwards"]
        assert found["files"] == [FILE]


def _open_without_northbridge(outcome: RunResult) -> dict[str, Any]:
    opener = _opener()
    assert opener.stdin is not None
    assert opener.stdout is not None
    opener.stdin.write(json.dumps(str(outcome.folder / "epoch=1.ckpt")) + "\n")
    opener.stdin.flush()
    said = opener.stdout.readline()
    if not said:
        _opener.cache_clear()
        raise AssertionError(f"the process that opened it {describe_exit(opener.wait())}")
    found: dict[str, Any] = json.loads(said)
    assert "failed" not in found, found["failed"]
    return found


@cache
def _opener() -> subprocess.Popen[str]:
    """Return the process that opens checkpoints: one for all of them, for its import of torch is what takes long."""
    opener = subprocess.Popen(
        python_command(_OPEN),
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(opener.communicate)  # it reads the end of its input
    return opener


class Outlasting(UsesSuite):
    """A failed checkpoint raises one error on every rank, and the training may then go on undisturbed."""

    runs: Runs = one_and_two_devices(*TRAINERS, *FABRICS)
    claims: tuple[str, ...] = ("checkpoint",)
    advice = "An error while a checkpoint is written must leave the chip usable: look at copies to the host that raise."

    def test_an_unwritable_checkpoint_is_an_error_on_every_rank(self, chip: RunResult) -> None:
        first, *others = chip.each("checkpoints.failed", "said")

        assert first[0].startswith("/proc/last.ckpt could not be written: ")
        for said in others:
            assert said[0].startswith("rank 0 could not write /proc/last.ckpt, so all ranks stop: ")

    def test_what_is_not_a_checkpoint_is_an_error(self, chip: RunResult) -> None:
        for said in chip.each("checkpoints.failed", "said"):
            assert ".ckpt could not be read as a checkpoint: " in said[1]

    def test_the_training_goes_on_with_the_same_weights_on_the_chip(self, chip: RunResult, backend: str) -> None:
        for found in chip.ranks("checkpoints.failed"):
            assert found["weights"][0] == found["weights"][1]
            assert found["devices"] == [northbridge.get(backend).device.type]


class UsersCheckpointIO(UsesSuite):
    """A user's CheckpointIO and Lightning's asynchronous one write the weights of the moment of the save."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    claims: tuple[str, ...] = ("checkpoint",)
    advice = "Tensors changed before they were written: look at copies to the host that do not block."

    @pytest.mark.parametrize("io", ["own", "asynchronous"])
    def test_it_writes_the_weights_of_the_moment(self, chip: RunResult, io: str) -> None:
        for found in chip.each("checkpoints.failed", io):
            assert found == {"as it was": True, "errors": []}

    def test_it_is_given_tensors_on_the_cpu_by_one_rank(self, chip: RunResult, devices: int) -> None:
        assert chip.each("checkpoints.failed", "own wrote") == [["cpu"], []][:devices]
