"""The ways to train that Lightning's users choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import _Validated, classifier, module_of, trainer
from northbridge_conformance.runs.models import SAMPLES, adam, loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import TRAINERS, Differences, Runs, UsesSuite, one_and_two_devices


class _Plain(_Validated):
    def configure_optimizers(self) -> Any:
        return adam(self.trained())

    def trained(self) -> list[Any]:
        return [each for each in self.parameters() if each.requires_grad]


class _ByLBFGS(_Plain):
    def configure_optimizers(self) -> Any:
        return torch.optim.LBFGS(self.trained(), lr=0.1, max_iter=2)


class _Scheduled(_Plain):
    def configure_optimizers(self) -> Any:
        optimizer = adam(self.trained())
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=1.0)
        steps = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        return [optimizer], [
            {"scheduler": steps, "interval": "step"},
            {"scheduler": plateau, "monitor": "validation loss"},
        ]


class _Late(_Plain):
    net: Any

    def configure_model(self) -> None:
        if isinstance(self.net[-1], torch.nn.Identity):
            return
        layer = torch.nn.Linear(5, 5)  # its initial weights come from the chip's generator
        torch.manual_seed(4)
        torch.nn.init.eye_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        self.net = torch.nn.Sequential(*list(self.net), layer, torch.nn.Identity())


class _Manual(_Plain):
    def __init__(self, net: torch.nn.Module, folder: Path, topic: str) -> None:
        super().__init__(net, folder, topic)
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        optimizer = self.optimizers()

        def close() -> Tensor:
            loss: Tensor = super(_Manual, self).training_step(batch, batch_index)
            optimizer.zero_grad()
            self.manual_backward(loss)
            self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
            return loss

        loss: Tensor = optimizer.step(closure=close)
        return loss


@dataclass(frozen=True)
class Way:
    """The options that a user asks for."""

    kind: type = _Plain
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The Trainer's arguments."""

    callback: Callable[[Any], Any] | None = None
    """Builds a callback from Lightning's callbacks module."""


def _finetuning(callbacks: Any) -> Any:
    class Finetuning(callbacks.BaseFinetuning):  # type: ignore[misc]  # Lightning's class of this namespace
        """Freezes the first layer, and trains it too from the second epoch on."""

        def freeze_before_training(self, pl_module: Any) -> None:
            self.freeze(pl_module.net[0])

        def finetune_function(self, pl_module: Any, epoch: int, optimizer: Any) -> None:
            if epoch == 1:
                self.unfreeze_and_add_param_group(pl_module.net[0], optimizer, lr=0.005)

    return Finetuning()


WAYS = {
    "plainly": Way(),
    "accumulating": Way(arguments={"accumulate_grad_batches": 3}),
    "accumulating by a schedule": Way(callback=lambda room: room.GradientAccumulationScheduler({0: 1, 1: 2})),
    "clipping by norm": Way(arguments={"gradient_clip_val": 0.1}),
    "clipping by value": Way(arguments={"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"}),
    "overfitting": Way(arguments={"overfit_batches": 2}),
    "by LBFGS": Way(_ByLBFGS, {"max_epochs": 1}),  # later steps amplify the rounding of right chips
    "on schedules": Way(_Scheduled),
    "configuring the model late": Way(_Late, {"max_epochs": 1}),  # as above
    "by hand": Way(_Manual),
    "finetuning": Way(callback=_finetuning),
    "averaging weights": Way(callback=lambda room: room.StochasticWeightAveraging(0.01, swa_epoch_start=2)),
}
"""The ways of training that run."""


def optimize(scenario: Scenario, folder: Path) -> None:
    """Report the weights and the number of steps of each way, and the learning rate at its end."""
    callbacks = module_of(scenario, "callbacks")
    found: dict[str, Any] = {}
    rank = 0
    for name, way in WAYS.items():
        called = [] if way.callback is None else [way.callback(callbacks)]
        arguments = {"max_epochs": 3, "limit_val_batches": 2, "callbacks": called, **way.arguments}
        host = trainer(scenario, folder, **arguments)
        module = classifier(scenario.namespace, "convnet", folder, "optimize fit", way.kind)
        batches = (
            loader(batch=SAMPLES) if way.kind is _ByLBFGS else loader()
        )  # with small batches it amplifies rounding
        host.fit(module, batches, loader(shuffle=False))
        rates = [group["lr"] for optimizer in host.optimizers for group in optimizer.param_groups]
        found[name] = {"weights": fingerprint(module.state_dict()), "steps": host.global_step, "rates": rates}
        rank = host.global_rank
    write(folder, "optimize", rank, found)


class Optimization(UsesSuite):
    """Optimizers, clipping, accumulation, schedules and training callbacks work as on the CPU."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "The way that differs names what to look at: an optimizer its foreach kernels, clipping its norms, accumulating"
        " on several devices DDP's no_sync(), a schedule nothing of the chip's."
    )

    @pytest.mark.parametrize("way", WAYS)
    def test_weights_steps_and_learning_rates_match_a_cpu_run(self, differences: Differences, way: str) -> None:
        assert differences("optimize", way) == []

    @pytest.mark.parametrize("way", [way for way in WAYS if way != "plainly"])
    def test_option_changes_the_result(self, chip: RunResult, way: str) -> None:
        assert chip.each("optimize", way) != chip.each("optimize", "plainly")
