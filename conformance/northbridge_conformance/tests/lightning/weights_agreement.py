"""Ranks that must have equal weights, or get an error."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from northbridge.errors import WeightsDisagreeError
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import _Classifier, build, classifier, fabric, is_trainer, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, in_each, several_devices

STEP = 3
"""The step after which the last rank changes a weight."""

EVERY = 2
"""The number of steps between two checks."""


def compare_weights(scenario: Scenario, folder: Path) -> None:
    """Report on each rank when the weights agreed, and the error if one rank's weights differed."""
    if is_trainer(scenario.namespace):
        _fit(scenario, folder)
    else:
        fabric(scenario).launch(_check, scenario.namespace, folder)


def _fit(scenario: Scenario, folder: Path) -> None:
    own: Any = import_module(NAMESPACES[scenario.namespace].home)
    found = {}
    for name, changes in (("whole", False), ("changed", True)):
        agreement = own.WeightsAgreement(every_n_steps=EVERY)
        host = trainer(scenario, folder, callbacks=[agreement])
        module = classifier(scenario.namespace, "mlp", folder, "compare_weights fit", _Changing)
        module.changes = changes
        with Caught() as caught:
            host.fit(module, loader(samples=8 * 4 * host.world_size))
        found[name] = {"agreed at": agreement.agreed_at, "steps": host.global_step, **caught.told}
    write(folder, "compare_weights", host.global_rank, found)


def _check(host: Any, namespace: str, folder: Path) -> None:
    agreement: Any = import_module(NAMESPACES[namespace].home).WeightsAgreement()
    net = build("mlp")
    net, _ = host.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    agreement.check(host.strategy, net, 1)
    if host.global_rank == host.world_size - 1:
        change(net)
    with Caught() as caught:
        agreement.check(host.strategy, net, STEP)
    write(folder, "compare_weights", host.global_rank, {"changed": {"agreed at": agreement.agreed_at, **caught.told}})


def change(net: torch.nn.Module) -> None:
    """Change one element of the next-to-last weight slightly."""
    with torch.no_grad():
        list(net.parameters())[-2][0, 0] += 1e-6


class Caught:
    """Catches the error, and keeps its ranks and message."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"ranks": [], "message": ""}

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, WeightsDisagreeError):
            self.told = {"ranks": list(error.ranks), "message": str(error)}
            return True
        return False


class _Changing(_Classifier):
    changes: bool

    def on_train_batch_start(self, batch: Any, batch_index: int) -> None:
        if self.changes and self.global_step == STEP and self.global_rank == self.trainer.world_size - 1:
            change(self)


class WeightsAgreementTests(NamespaceSuite):
    """The callback compares the ranks' weights over the chip's library, and names the differing rank."""

    runs: Runs = several_devices(*TRAINERS)
    advice = (
        "If ranks agree and are reported to differ, or the other way round: look at all_gather and all_reduce of"
        " integers, which compare the digests."
    )

    def test_ranks_with_equal_weights_train_to_the_end(self, chip: RunResult) -> None:
        for found in chip.each("compare_weights", "whole"):
            assert found["agreed at"] == found["steps"] == 8
            assert not found["message"]

    def test_a_differing_rank_is_named_at_the_next_check(self, chip: RunResult, devices: int) -> None:
        for found in chip.each("compare_weights", "changed"):
            assert found["ranks"] == [devices - 1]
            assert found["agreed at"] == STEP // EVERY * EVERY
            assert f"at step {STEP + 1} (equal at step {found['agreed at']}): rank {devices - 1}" in found["message"]
            assert ".5.weight'. Fix: find" in found["message"]


class FabricWeightsAgreement(NamespaceSuite):
    """The same check works when a Fabric's loop calls it."""

    runs: Runs = in_each(*FABRICS, devices=(2,))
    advice = "As for a Trainer's: look at all_gather and all_reduce of whole numbers."

    def test_a_differing_rank_is_named_on_every_rank(self, chip: RunResult) -> None:
        for found in chip.each("compare_weights", "changed"):
            assert found["ranks"] == [1]
            assert found["agreed at"] == 1
            assert "rank 1 differs from rank 0 (a tie" in found["message"]
            assert "in '5.weight'." in found["message"]
