"""Checkpoints that cannot be written or read, and those of a user's own CheckpointIO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

import northbridge
from northbridge.errors import CheckpointError
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import (
    _Classifier,
    classifier,
    fabric,
    is_trainer,
    module_of,
    set_up,
    trainer,
)
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    Runs,
    UsesSuite,
    one_and_two_devices,
)

_NOWHERE = "/proc/last.ckpt"


def fail_to_save(scenario: Scenario, folder: Path) -> None:
    """Report the errors, and the weights at the end of the training that continued after them."""
    if is_trainer(scenario.namespace):
        _fit_failing(scenario, folder)
    else:
        fabric(scenario).launch(_loop_failing, folder)


def _fit_failing(scenario: Scenario, folder: Path) -> None:
    host = trainer(scenario, folder, max_epochs=1)
    plain = classifier(scenario.namespace, "mlp", folder, "fail_to_save fit")
    host.fit(plain, loader(shuffle=False))
    found: dict[str, Any] = {"weights": [fingerprint(plain.state_dict())]}
    failing = classifier(scenario.namespace, "mlp", folder, "fail_to_save fit", _Failing)
    host = trainer(scenario, folder, max_epochs=1)
    host.fit(failing, loader(shuffle=False))
    found["weights"].append(fingerprint(failing.state_dict()))
    found |= {"said": failing.said, "devices": sorted(failing.devices)}
    write(folder, "fail_to_save", host.global_rank, {**found, **_through_others(scenario, folder)})


def _through_others(scenario: Scenario, folder: Path) -> dict[str, Any]:
    ios = module_of(scenario, "plugins.io")
    stock: Any = NAMESPACES[scenario.namespace].fabric_module("plugins.io.torch_io").TorchCheckpointIO
    written: list[str] = []

    class Own(stock):  # type: ignore[misc]  # Lightning's class of this namespace
        def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
            written.extend(sorted({str(each.device) for each in checkpoint["state_dict"].values()}))
            super().save_checkpoint(checkpoint, path, storage_options=storage_options)

    found: dict[str, Any] = {}
    for name, io in (("own", Own()), ("asynchronous", ios.AsyncCheckpointIO())):
        host = trainer(scenario, folder, max_epochs=1, plugins=[io])
        module = classifier(scenario.namespace, "mlp", folder, "fail_to_save fit", _Failing)
        module.path = folder / f"{name}.ckpt"
        host.fit(module, loader(shuffle=False))
        host.strategy.barrier()
        saved = torch.load(module.path, weights_only=True)["state_dict"]
        found[name] = {"as it was": fingerprint(saved) == module.snapshot, "errors": module.said}
    return {**found, "own wrote": written}


def _try(action: Any, *arguments: Any) -> str:
    try:
        action(*arguments)
    except CheckpointError as error:
        return str(error)
    return "nothing was wrong"


class _Failing(_Classifier):
    path: Any = _NOWHERE

    def __init__(self, net: torch.nn.Module, folder: Path, topic: str) -> None:
        super().__init__(net, folder, topic)
        self.said: list[str] = []
        self.devices: set[str] = set()
        self.snapshot = ""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_index: int) -> None:
        if batch_index != 1:
            return
        self.snapshot = fingerprint(self.state_dict())
        if self.path != _NOWHERE:
            self.trainer.save_checkpoint(self.path)
            return
        garbage = self.folder / f"garbage-{self.global_rank}.ckpt"
        garbage.write_bytes(b"no checkpoint")
        self.said.append(_try(self.trainer.save_checkpoint, self.path))
        self.said.append(_try(self.trainer.strategy.load_checkpoint, garbage, False))
        self.devices = {each.device.type for each in self.parameters()}


def _loop_failing(host: Any, folder: Path) -> None:
    found: dict[str, Any] = {"weights": [], "said": []}
    for fails in (False, True):
        net, optimizer = set_up(host, "mlp")
        for number, (images, labels) in enumerate(host.setup_dataloaders(loader(shuffle=False))):
            optimizer.zero_grad()
            host.backward(cross_entropy(net(images), labels))
            optimizer.step()
            if fails and number == 1:
                garbage = folder / f"garbage-{host.global_rank}.ckpt"
                garbage.write_bytes(b"no checkpoint")
                found["said"].append(_try(host.save, _NOWHERE, {"net": net}))
                found["said"].append(_try(host.load, garbage, {"net": net}))
        found["devices"] = sorted({each.device.type for each in net.parameters()})
        found["weights"].append(fingerprint(net.module.state_dict()))
    write(folder, "fail_to_save", host.global_rank, found)


class FailedCheckpoints(UsesSuite):
    """A failed checkpoint raises one error on every rank, and the training may then go on undisturbed."""

    runs: Runs = one_and_two_devices(*TRAINERS, *FABRICS)
    claims: tuple[str, ...] = ("checkpoint",)
    advice = "An error while a checkpoint is written must leave the chip usable: look at copies to the host that raise."

    def test_unwritable_checkpoint_raises_on_every_rank(self, chip: RunResult) -> None:
        first, *others = chip.each("fail_to_save", "said")

        assert first[0].startswith("/proc/last.ckpt could not be written: ")
        for said in others:
            assert said[0].startswith("rank 0 could not write /proc/last.ckpt, so all ranks stop: ")

    def test_loading_an_invalid_checkpoint_raises(self, chip: RunResult) -> None:
        for said in chip.each("fail_to_save", "said"):
            assert ".ckpt could not be read as a checkpoint: " in said[1]

    def test_training_continues_with_the_same_weights(self, chip: RunResult, backend: str) -> None:
        for found in chip.ranks("fail_to_save"):
            assert found["weights"][0] == found["weights"][1]
            assert found["devices"] == [northbridge.get(backend).device.type]


class CustomCheckpointIO(UsesSuite):
    """A user's CheckpointIO and Lightning's asynchronous one write the weights of the moment of the save."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    claims: tuple[str, ...] = ("checkpoint",)
    advice = "Tensors changed before they were written: look at copies to the host that do not block."

    @pytest.mark.parametrize("io", ["own", "asynchronous"])
    def test_checkpoint_has_the_weights_of_the_moment_of_saving(self, chip: RunResult, io: str) -> None:
        for found in chip.each("fail_to_save", io):
            assert found == {"as it was": True, "errors": []}

    def test_only_one_rank_writes_and_gets_cpu_tensors(self, chip: RunResult, devices: int) -> None:
        assert chip.each("fail_to_save", "own wrote") == [["cpu"], []][:devices]
