"""Checkpoints that open on any chip, and on machines without one."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

import northbridge
from northbridge.processes.endings import describe_exit
from northbridge.processes.environment import python_command
from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.comparison import address_of, differences_from_cpu, fingerprint
from northbridge_conformance.runs.hosts import (
    _Classifier,
    build,
    classifier,
    fabric,
    is_trainer,
    module_of,
    set_up,
    trainer,
)
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    Differences,
    NamespaceSuite,
    Runs,
    in_each,
    one_and_several_devices,
    shows,
)
from northbridge_conformance.tests.lightning.training import train_epoch

MODEL = "tied and normed"

INTERIM_MODEL = "tied"

FILE = "kept.ckpt"

SPOILT = "this cannot be pickled"
"""The message of the error that the unpicklable value of a checkpoint raises."""

_BATCH = 2
"""The batch of the first epoch after which the checkpoints are written."""


def save(scenario: Scenario, folder: Path) -> None:
    """Train, and write the checkpoints ``epoch=0.ckpt`` and ``epoch=1.ckpt`` into the run's folder."""
    if not is_trainer(scenario.namespace):
        fabric(scenario).launch(_save, folder)
        return
    callbacks = module_of(scenario, "callbacks")
    keep = callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    host = trainer(scenario, folder, callbacks=[keep], enable_checkpointing=True)
    host.fit(classifier(scenario.namespace, MODEL, folder, "save"), loader(shuffle=False))


def _save(host: Any, folder: Path) -> None:
    net, optimizer = set_up(host, MODEL)
    batches = host.setup_dataloaders(loader(shuffle=False))
    for epoch in range(2):
        train_epoch(host, net, optimizer, batches)
        host.save(folder / f"epoch={epoch}.ckpt", {"net": net, "optimizer": optimizer, "epoch": epoch})
    write(folder, "save", host.global_rank, {"weights": fingerprint(net.state_dict())})


def resume(scenario: Scenario, folder: Path) -> None:
    """Train the second epoch from the first epoch's checkpoint of ``scenario.resume``, or else of this run's folder."""
    checkpoint = Path(scenario.resume or folder) / "epoch=0.ckpt"
    if is_trainer(scenario.namespace):
        module = classifier(scenario.namespace, MODEL, folder, "resume")
        trainer(scenario, folder).fit(module, loader(shuffle=False), ckpt_path=checkpoint)
    else:
        fabric(scenario).launch(_resume, checkpoint, folder)


def _resume(host: Any, checkpoint: Path, folder: Path) -> None:
    net, optimizer = set_up(host, MODEL)
    batches = host.setup_dataloaders(loader(shuffle=False))
    rest = host.load(checkpoint, {"net": net, "optimizer": optimizer})
    train_epoch(host, net, optimizer, batches)
    found = {
        "weights": fingerprint(net.state_dict()),
        "parameters": len(list(net.parameters())),
        "epoch": rest["epoch"],
    }
    write(folder, "resume", host.global_rank, found)


def save_within_epoch(scenario: Scenario, folder: Path) -> None:
    """Report the model around each checkpoint, the state of the file, and the weights at the end."""
    kept = folder / "interim"
    kept.mkdir(exist_ok=True)
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder)  # seeds before the model is built
        module = classifier(scenario.namespace, INTERIM_MODEL, kept, "save_within_epoch fit", _Keeping)
        host.fit(module, loader())
        found, net = module.found, module
    else:
        host = fabric(scenario)
        host.launch()
        found, net = _loop_interim(host, kept)
    write(folder, "save_within_epoch", 0, {**found, "weights": fingerprint(net.state_dict())})


def _loop_interim(host: Any, kept: Path) -> tuple[dict[str, Any], Any]:
    net, optimizer = set_up(host, INTERIM_MODEL)
    state = {"net": net, "optimizer": optimizer}
    found: dict[str, Any] = {}
    batches = host.setup_dataloaders(loader())
    for epoch in range(2):
        for number, (images, labels) in enumerate(batches):
            optimizer.zero_grad()
            host.backward(cross_entropy(net(images), labels))
            optimizer.step()
            if (epoch, number) == (0, _BATCH):
                found = _keep(net, kept / FILE, lambda spoils: host.save(kept / FILE, {**state, **spoils}))
    return found, net


class _Keeping(_Classifier):
    spoils: dict[str, Any]

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_index: int) -> None:
        if (self.current_epoch, batch_index) == (0, _BATCH):
            self.found = _keep(self, self.folder / FILE, self._save)

    def _save(self, spoils: dict[str, Any]) -> None:
        self.spoils = spoils
        self.trainer.save_checkpoint(self.folder / FILE)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint.update(self.spoils)


def _keep(net: torch.nn.Module, file: Path, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Save a checkpoint, then save one that fails to pickle to the same file; report the model and the file."""
    before = _places(net)
    save({"views": views(next(net.parameters()).device)})
    found: dict[str, Any] = {"before": before, "after": _places(net), **_contents(file)}
    whole = _bytes(file)
    spoilt = _Spoilt(file)
    try:
        save({"spoilt": spoilt})
    except Exception as error:  # noqa: BLE001  # which one it was is what the test asks
        found["error"] = f"{type(error).__name__}: {error}"
    return {
        **found,
        "whole while another was written": spoilt.seen == {whole},
        "whole afterwards": _bytes(file) == whole,
        "files": sorted(each.name for each in file.parent.iterdir()),
    }


class _Spoilt:
    """Records the bytes of a file while it is pickled; pickling it raises."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seen: set[str] = set()

    def __reduce__(self) -> Any:
        self.seen.add(_bytes(self.file))
        raise ValueError(SPOILT)


def views(device: torch.device) -> dict[str, torch.Tensor]:
    """Return views of one tensor on ``device``, with different offsets and strides."""
    whole = torch.arange(12.0).reshape(3, 4).to(device)
    left, right = whole.chunk(2, 1)
    rows = {"first row": whole[0], "second row": whole[1], "the second again": whole[1]}
    return {
        **rows,
        "turned": whole.t(),
        "left": left,
        "right": right,
        "every other": whole[1:, ::2],
        "wide": whole[2, 3:].expand(3),
    }


def _bytes(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _places(net: torch.nn.Module) -> list[list[Any]]:
    return [[name, str(each.device), address_of(each)] for name, each in net.named_parameters(remove_duplicate=False)]


def _contents(file: Path) -> dict[str, Any]:
    """Return devices, tied weights and views of a checkpoint, loaded as on a machine without the chip."""
    checkpoint: dict[str, Any] = torch.load(file, weights_only=True)
    weights = checkpoint.get("state_dict", checkpoint.get("net"))
    assert weights is not None
    named = {name.removeprefix("net."): each for name, each in weights.items()}
    memory = {named[name].untyped_storage().data_ptr() for name in ("first.weight", "second.weight")}
    return {
        "devices": sorted({str(each.device) for each in named.values()}),
        "tied": len(memory) == 1,
        "views": {name: each.tolist() for name, each in checkpoint["views"].items()},
    }


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
    def test_checkpoint_loads_without_northbridge_or_lightning(self, chip: RunResult) -> None:
        assert chip.ranks("save")
        found = _open_without_northbridge(chip)

        assert found["devices"] == ["cpu"]
        assert found["tensors"] > 10

    @shows("checkpoint")
    def test_run_that_saves_has_the_weights_of_a_cpu_run(self, differences: Differences) -> None:
        assert differences("save", "weights") == []

    @shows("resume")
    def test_a_cpu_checkpoint_resumes_on_the_chip(self, differences: Differences) -> None:
        assert differences("resume", "weights") == []

    @shows("resume")
    def test_tied_weights_stay_tied_after_resume(self, chip: RunResult) -> None:
        tied = len(list(build(MODEL).parameters()))

        assert set(chip.each("resume", "parameters")) == {tied}


class CheckpointsOnTheCPU(NamespaceSuite):
    """Lightning's own run on the CPU resumes where the chip's run ended."""

    runs: Runs = one_and_several_devices(TRAINERS[0], FABRICS[0])
    advice = "What the chip wrote is not what it had: look at copies to the host, and at the state of the optimizer."

    @shows("checkpoint")
    def test_a_checkpoint_of_the_chip_resumes_on_the_cpu(
        self, backend: str, namespace: str, devices: int, chip: RunResult, cpu: RunResult
    ) -> None:
        assert chip.ranks("save")
        resumed = run(Scenario("cpu", namespace, (reference(resume),), devices, resume=str(chip.folder)))

        found, expected = resumed.each("resume", "weights"), cpu.each("resume", "weights")
        assert differences_from_cpu(backend, found, expected) == []


class CheckpointsDuringTraining(NamespaceSuite):
    """A checkpoint within a training is complete and leaves the model alone; a failed one leaves the old file alone."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    claims: tuple[str, ...] = ("checkpoint",)
    advice = (
        "A checkpoint copies tensors and moves none: look at whatever moves a module, or replaces its parameters,"
        " while it is saved. Northbridge writes beside the file and renames; a CheckpointIO of a vendor's has to do so"
        " too."
    )

    def test_saving_leaves_the_model_on_its_device(self, chip: RunResult, device: northbridge.Device) -> None:
        found = chip.only("save_within_epoch")

        assert found["after"] == found["before"]
        assert {where for _, where, _ in found["after"]} == {str(device.root(0))}

    def test_weights_equal_those_of_a_run_without_checkpoints(self, chip: RunResult) -> None:
        through = chip.only(f"train {INTERIM_MODEL}")

        assert chip.only("save_within_epoch")["weights"] == through["weights"]

    def test_checkpoint_has_cpu_tensors_and_tied_weights(self, chip: RunResult) -> None:
        found = chip.only("save_within_epoch")

        assert found["devices"] == ["cpu"]
        assert found["tied"]

    def test_views_are_saved_with_their_values(self, chip: RunResult) -> None:
        expected = {name: each.tolist() for name, each in views(torch.device("cpu")).items()}

        assert chip.only("save_within_epoch")["views"] == expected

    def test_failed_save_keeps_the_previous_file(self, chip: RunResult) -> None:
        found = chip.only("save_within_epoch")

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
