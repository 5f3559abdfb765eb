"""Training steps that are captured and replayed, on the simulated chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import northbridge
from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.graphs.capture import GraphWarning
from northbridge.lightning.pytorch import CapturedStep

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(workers|number of training batches):UserWarning"),
    pytest.mark.filterwarnings("ignore:.*training_step.* returned .None.:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning's use of torch
]

LR = 0.1


@pytest.fixture(autouse=True)
def chip() -> northbridge.Backend:
    """The chip, loaded before a test seeds it."""
    return northbridge.load("cpu_sim")


def sgd(model: LightningModule) -> Any:
    return torch.optim.SGD(model.parameters(), LR, momentum=0.9)


def adam(model: LightningModule) -> Any:
    rate = torch.tensor(LR, device=model.device)
    optimizer = torch.optim.AdamW(model.parameters(), rate, capturable=True)
    return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def scheduled_sgd(model: LightningModule) -> Any:
    optimizer = sgd(model)
    return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class Model(LightningModule):
    def __init__(self, optimizer: Callable[[LightningModule], Any] = sgd) -> None:
        super().__init__()
        layers = nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
        self.net = nn.Sequential(*layers)
        self.make_optimizer = optimizer

    def training_step(self, batch: list[Tensor], index: int) -> dict[str, Tensor]:
        rows, labels = batch
        loss = nn.functional.cross_entropy(self.net(rows), labels)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log_dict({"norm": rows.norm()})
        return {"loss": loss, "sum": rows.sum()}

    def configure_optimizers(self) -> Any:
        return self.make_optimizer(self)


class Notes(Callback):
    def __init__(self) -> None:
        self.found: list[float] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        metrics = trainer.callback_metrics
        self.found += [outputs["loss"].item(), outputs["sum"].item(), metrics["loss_step"].item()]

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.found.append(trainer.callback_metrics["loss_epoch"].item())


def fit(model: LightningModule, *callbacks: Callback, epochs: int = 3, **options: Any) -> Trainer:
    torch.manual_seed(5)
    rows = TensorDataset(torch.randn(27, 4), torch.randint(0, 2, (27,)))
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    where = {"accelerator": "cpu_sim", "devices": 1, "max_epochs": epochs, "callbacks": [*callbacks]}
    trainer = Trainer(**{**where, **off, **options})
    trainer.fit(model, DataLoader(rows, batch_size=6, shuffle=True))
    return trainer


def assert_is_as_before(model: LightningModule) -> None:
    assert not {"optimizer_step", "training_step", "log"} & vars(model).keys()


def run(captured: CapturedStep | None, optimizer: Callable[[LightningModule], Any], **options: Any) -> Any:
    torch.manual_seed(0)
    model, notes = Model(optimizer), Notes()
    fit(model, notes, *([captured] if captured else []), **options)
    assert_is_as_before(model)
    return notes.found, {name: value.tolist() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    ("optimizer", "options", "captures"),
    [
        (sgd, {"gradient_clip_val": 1.0}, 2),
        (adam, {"precision": "bf16-mixed"}, 2),
        (scheduled_sgd, {}, 6),
    ],
)
def test_training_is_equal_to_the_bit(optimizer: Any, options: dict[str, Any], captures: int) -> None:
    """Dropout, batch norm, a smaller last batch, clipping, schedulers, logged values and results."""
    captured = CapturedStep()

    assert run(captured, optimizer, **options) == run(None, optimizer, **options)
    assert (captured.captures, captured.replays) == (captures, 12)


def test_bound_warns_and_runs_without_a_graph() -> None:
    captured = CapturedStep(max_graphs=1)
    with pytest.warns(GraphWarning, match=r"captured 1 times \(max_graphs=1\)"):
        assert run(captured, sgd) == run(None, sgd)
    assert captured.replays == 9  # all but the smaller last batches


class Reads(Model):
    def training_step(self, batch: list[Tensor], index: int) -> Any:
        result = super().training_step(batch, index)
        result["sum"].item()
        return result


class Counts(Model):
    seen = 0

    def training_step(self, batch: list[Tensor], index: int) -> Any:
        self.seen += 1
        return super().training_step(batch, index)


class LogsANumber(Model):
    def training_step(self, batch: list[Tensor], index: int) -> Any:
        self.log("half", 0.5)
        return super().training_step(batch, index)


class Steps(Model):
    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        super().optimizer_step(*args, **kwargs)


class ByHand(Model):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


class Hooked(Model):
    def on_after_backward(self) -> None:
        """Run in each backward."""


class Watches(Callback):
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Run in each step."""


class LeavesLabels(Model):
    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        return [batch[0].to(device), batch[1]]

    def training_step(self, batch: list[Tensor], index: int) -> Any:
        return super().training_step([batch[0], batch[1].to(self.device)], index)


class Skips(Model):
    def training_step(self, batch: list[Tensor], index: int) -> Any:
        return None


class CountingSGD(torch.optim.SGD):
    """An optimizer as a vendor's, whose count is a number."""

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        self.param_groups[0]["step"] = self.param_groups[0].get("step", 0) + 1
        torch.tensor(1.0).to("cpu_sim")  # as a correction by the count
        return loss


def sharded() -> LightningModule:
    model = Model()
    model.net[0].weight.device_mesh = "of a DTensor"  # type: ignore[union-attr]
    return model


REFUSED: dict[str, tuple[Callable[[], LightningModule], dict[str, Any], str]] = {
    "a value that is read": (Reads, {}, "a value was read on the host"),
    "a count in Python": (Counts, {}, "'seen' got another value in Python"),
    "a number in the log": (LogsANumber, {}, r"self.log\('half', …\) in a captured step logs a float"),
    "an optimizer_step": (Steps, {}, "Steps.optimizer_step would run while the step is captured"),
    "a hook": (Hooked, {}, "Hooked.on_after_backward would run while the step is captured"),
    "a callback": (Model, {"callbacks": [CapturedStep(), Watches()]}, "Watches.on_before_optimizer_step would run"),
    "two of them": (Model, {"callbacks": [CapturedStep(), CapturedStep()]}, "has CapturedStep twice. Fix: use one"),
    "optimization by hand": (ByHand, {}, "the module optimizes by hand"),
    "accumulation": (Model, {"accumulate_grad_batches": 2}, "accumulate_grad_batches=2"),
    "accumulation that begins later": (
        Model,
        {"callbacks": [GradientAccumulationScheduler({0: 1, 1: 2}), CapturedStep()]},
        "cannot be used: accumulate_grad_batches=2",
    ),
    "a scaler": (Model, {"precision": "16-mixed"}, "a gradient scaler reads the gradients"),
    "a state on the CPU": (
        lambda: Model(lambda model: torch.optim.AdamW(model.parameters(), LR)),
        {},
        r"AdamW keeps 'step' on the CPU, .* Fix: AdamW\(…, capturable=True\)",
    ),
    "a state on the CPU for good": (
        lambda: Model(lambda model: torch.optim.Adagrad(model.parameters(), LR)),
        {},
        "Adagrad keeps 'step' on the CPU, .* Fix: use AdamW with capturable=True, or train without CapturedStep",
    ),
    "a count that is copied": (
        lambda: Model(lambda model: CountingSGD(model.parameters(), LR)),
        {},
        r"CountingSGD counts its steps in Python, .* Fix: torch.optim.AdamW\(…, capturable=True\), or leave",
    ),
    "a batch on the CPU": (LeavesLabels, {}, "a tensor of the batch is on cpu, .* Fix: move it"),
    "a sharded model": (sharded, {}, "the model is sharded by hooks, .* Fix: strategy='ddp', or train"),
    "no loss": (Skips, {}, "training_step returned no loss while it was captured"),
    "anomaly detection": (Model, {"detect_anomaly": True}, "detect_anomaly=True reads every"),
    "the CPU": (Model, {"accelerator": "cpu"}, "CPUAccelerator is not a chip of Northbridge. Fix: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_graph_cannot_hold_is_refused(case: str) -> None:
    build, options, said = REFUSED[case]
    model = build()
    with pytest.raises(RuntimeError if build is Reads else UnsupportedError, match=said):
        fit(model, CapturedStep(), **options)
    assert_is_as_before(model)
    assert (torch.ones(2, device="cpu_sim") + 1).tolist() == [2, 2]


@pytest.mark.parametrize("wrong", [{"warmup_steps": 0}, {"max_graphs": 0}])
def test_wrong_arguments_are_errors(wrong: dict[str, int]) -> None:
    with pytest.raises(ArgumentsError, match="is not 1 or more"):
        CapturedStep(**wrong)
