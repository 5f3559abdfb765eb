"""Mixed precision on the chip's own device type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from northbridge.errors import UnsupportedError
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import (
    _Classifier,
    build,
    classifier,
    fabric,
    is_trainer,
    own_rank,
    set_up,
    trainer,
)
from northbridge_conformance.runs.models import loader, seen
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import FABRICS, TRAINERS, Differences, NamespaceSuite, Runs, in_each, shows
from northbridge_conformance.tests.lightning.training import train_models

PRECISIONS = {
    "32-true": ("float32", "float32"),
    "16-true": ("float16", "float16"),
    "bf16-true": ("bfloat16", "bfloat16"),
    "64-true": ("float64", "float64"),
    "16-mixed": ("float16", "float32"),
    "bf16-mixed": ("bfloat16", "float32"),
}
"""The dtypes of the last layer's output, and of the weights."""

BATCHES = 5
OVERFLOW = 2
"""The batch whose gradients are not finite."""

_SCALED = "16-mixed"


def train_mixed(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models under autocast in bfloat16; each rank reports."""
    with dtypes_inside() as inside:
        train_models(scenario, folder, "train_mixed", precision="bf16-mixed")
    write(folder, "train_mixed inside", own_rank(), {"dtypes": sorted(inside)})


@contextmanager
def dtypes_inside() -> Iterator[set[str]]:
    """Collect the dtypes of what linear and convolutional layers return inside, in any model of this process."""
    found: set[str] = set()

    def note(module: nn.Module, _given: Any, result: Tensor) -> None:
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            found.add(str(result.dtype))

    hook = nn.modules.module.register_module_forward_hook(note)
    try:
        yield found
    finally:
        hook.remove()


def train_precisions(scenario: Scenario, folder: Path) -> None:
    """Report the dtypes under each precision and the weights that did not change, or the reason for a refusal."""
    write(folder, "train_precisions", 0, {precision: _try(scenario, folder, precision) for precision in PRECISIONS})


def _try(scenario: Scenario, folder: Path, precision: str) -> dict[str, Any]:
    try:
        return _fit(scenario, folder, precision) if is_trainer(scenario.namespace) else _loop(scenario, precision)
    except UnsupportedError as error:
        return {"refused": error.capability, "said": str(error)}


def _fit(scenario: Scenario, folder: Path, precision: str) -> dict[str, Any]:
    host = trainer(scenario, folder, precision=precision, max_epochs=1, limit_train_batches=2)
    module = classifier(scenario.namespace, "mlp", folder, "train_precisions fit")
    host.fit(module, loader())
    return _seen(module.net)


def _loop(scenario: Scenario, precision: str) -> dict[str, Any]:
    host = fabric(scenario, precision=precision)
    host.launch()
    net: Any = build("mlp")
    net, optimizer = host.setup(net, torch.optim.SGD(net.parameters(), lr=0.01))
    for images, labels in host.setup_dataloaders(loader()):
        host.backward(cross_entropy(net(images), labels))
        optimizer.step()
    return _seen(net)


def _seen(net: nn.Module) -> dict[str, Any]:
    weights = {str(each.dtype).removeprefix("torch.") for each in net.parameters()}
    begun = build("mlp").parameters()
    return {
        "scores": [each.removeprefix("torch.") for each in seen(net)["scores"]],
        "weights": sorted(weights),
        "as they began": [
            name
            for (name, found), first in zip(net.named_parameters(), begun, strict=True)
            if torch.equal(found.detach().cpu(), first.detach().to(found.dtype))
        ],
    }


def train_scaled(scenario: Scenario, folder: Path) -> None:
    """Train in float16 through one overflow; report scale and weights before each batch, and after the last."""
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder, precision=_SCALED, max_epochs=1, limit_train_batches=BATCHES)
        host.fit(classifier(scenario.namespace, "mlp", folder, "train_scaled fit", _Scaled), loader(shuffle=False))
        host.save_checkpoint(folder / "scaled.ckpt")
        _resume(scenario, folder)
    else:
        fabric(scenario, precision=_SCALED).launch(_loop_over_overflow, folder)


def _resume(scenario: Scenario, folder: Path) -> None:
    host = trainer(scenario, folder, precision=_SCALED, max_epochs=1)
    module = classifier(scenario.namespace, "mlp", folder, "train_scaled fit")
    host.fit(module, loader(shuffle=False), ckpt_path=folder / "scaled.ckpt")
    write(folder, "train_scaled resumed", 0, {"scale": host.precision_plugin.scaler.get_scale()})


class _Course:
    def __init__(self) -> None:
        self.scales: list[float] = []
        self.weights: list[str] = []

    def note(self, scaler: Any, net: nn.Module) -> None:
        self.scales.append(scaler.get_scale())
        self.weights.append(fingerprint(net.state_dict()))

    def facts(self, scaler: Any, net: nn.Module) -> dict[str, Any]:
        return {"enabled": scaler.is_enabled(), "scales": self.scales, "weights": self.weights, **seen(net)}


def _loss(scores: Tensor, labels: Tensor, batch: int) -> Tensor:
    loss = cross_entropy(scores, labels)
    return loss * float("inf") if batch == OVERFLOW else loss


class _Scaled(_Classifier):
    def on_train_start(self) -> None:
        self.course = _Course()

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        self.course.note(self.trainer.precision_plugin.scaler, self.net)
        return _loss(self.net(batch[0]), batch[1], batch_index)

    def on_train_end(self) -> None:
        scaler = self.trainer.precision_plugin.scaler
        self.course.note(scaler, self.net)
        write(self.folder, "train_scaled", self.global_rank, self.course.facts(scaler, self.net))


def _loop_over_overflow(host: Any, folder: Path) -> None:
    net, optimizer = set_up(host, "mlp")
    course, scaler = _Course(), host.strategy.precision.scaler
    for number, (pictures, labels) in zip(range(BATCHES), host.setup_dataloaders(loader(shuffle=False)), strict=False):
        course.note(scaler, net)
        optimizer.zero_grad()
        host.backward(_loss(net(pictures), labels, number))
        optimizer.step()
    course.note(scaler, net)
    write(folder, "train_scaled", host.global_rank, course.facts(scaler, net))
    state = {"net": net, "scaler": scaler.state_dict()}
    host.save(folder / "scaled.ckpt", state)
    scaler.update(1.0)
    scaler.load_state_dict(host.load(folder / "scaled.ckpt", {"net": net})["scaler"])
    write(folder, "train_scaled resumed", host.global_rank, {"scale": scaler.get_scale()})


MODELS = ("mlp", "convnet", "transformer")


class Precision(NamespaceSuite):
    """``bf16-mixed`` and ``16-mixed`` reach the model, in the Trainer and in Fabric."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "Look at the Device's autocast_dtypes(), at the autocast keys that the vendor's plugin registers, and at the"
        " claims for bfloat16, float16 and float64: deny what the chip cannot do."
    )

    @shows("bfloat16")
    @pytest.mark.parametrize("model", MODELS)
    def test_bf16_mixed_computes_in_bfloat16_inside_the_model(self, chip: RunResult, model: str) -> None:
        found = chip.only(f"train_mixed {model}")

        assert found["autocast"] == [True]
        assert found["scores"] == ["torch.bfloat16"]
        assert chip.only("train_mixed inside")["dtypes"] == ["torch.bfloat16"]

    # Not the Transformer: the CPU's autocast and an accelerator's treat softmax and layer norm differently.
    @shows("bfloat16")
    @pytest.mark.parametrize("model", ["mlp", "convnet"])
    def test_bf16_mixed_weights_match_a_cpu_run(self, differences: Differences, model: str) -> None:
        assert differences(f"train_mixed {model}", "weights", dtype="bfloat16") == []

    def test_no_autocast_unless_asked(self, chip: RunResult) -> None:
        found = chip.only("train mlp")

        assert found["autocast"] == [False]
        assert found["scores"] == ["torch.float32"]

    @shows("float16")
    def test_16_mixed_computes_in_float16_with_an_enabled_scaler(self, chip: RunResult) -> None:
        found = chip.only("train_scaled")

        assert found["enabled"]
        assert found["scores"] == ["torch.float16"]

    @shows("float16")
    def test_an_overflow_skips_the_step_and_halves_the_scale(self, chip: RunResult) -> None:
        scales, weights = chip.only("train_scaled")["scales"], chip.only("train_scaled")["weights"]

        assert weights[OVERFLOW + 1] == weights[OVERFLOW]
        assert scales[OVERFLOW + 1] == scales[OVERFLOW] / 2

    @shows("float16", "checkpoint")
    def test_resume_restores_the_scale(self, chip: RunResult) -> None:
        assert chip.only("train_scaled resumed")["scale"] == chip.only("train_scaled")["scales"][-1]

    @shows("{scores}", "{weights}")
    @pytest.mark.parametrize(
        ("precision", "scores", "weights"), [(name, *dtypes) for name, dtypes in PRECISIONS.items()]
    )
    def test_each_precision_reaches_the_model(self, chip: RunResult, precision: str, scores: str, weights: str) -> None:
        found = chip.only("train_precisions")[precision]

        if "refused" in found:
            raise UnsupportedError(found["said"], capability=found["refused"])
        assert found == {"scores": [scores], "weights": [weights], "as they began": []}

    @shows("float16")
    def test_steps_without_overflow_update_the_weights(self, chip: RunResult) -> None:
        scales, weights = chip.only("train_scaled")["scales"], chip.only("train_scaled")["weights"]

        assert len(set(weights)) == BATCHES
        assert scales[-1] == scales[OVERFLOW + 1]
