"""Random numbers of the chip in interrupted runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import northbridge
from northbridge.lightning.plugins.checkpoint_io import stock_format
from northbridge.lightning.plugins.random_states import KEY
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import _Classifier, classifier, module_of, own_rank, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import TRAINERS, NamespaceSuite, Runs, in_each

_BATCHES = 4
"""The number of batches in an epoch for each rank; there are two epochs."""

_WITHIN = 6
"""The step after which the checkpoint within an epoch is written."""

_AT_END = "epoch=0.ckpt"


def draw_and_resume(scenario: Scenario, folder: Path) -> None:
    """Report the weights of uninterrupted trainings, and of trainings resumed from their checkpoints."""
    within = f"step={_WITHIN}.ckpt"
    found = {
        "through": _fit(scenario, folder, _shuffled(), _keep(scenario, folder / "shuffled")),
        "after a sanity check": _fit(scenario, folder, _shuffled(), num_sanity_val_steps=2),
        "taken up at an epoch's end": _resume_epoch(scenario, folder, folder),
        "through, resumable": _fit(scenario, folder, Resumable(), _keep(scenario, folder / "resumable")),
        "taken up within an epoch": _fit(scenario, folder, Resumable(), checkpoint=folder / "resumable" / within),
    }
    rank = own_rank()
    bare = torch.load(folder / "shuffled" / _AT_END, weights_only=True)
    delattr(bare["loops"], KEY)
    with stock_format():
        torch.save(bare, folder / f"bare-{rank}.ckpt")
    without = _fit(scenario, folder, _shuffled(), checkpoint=folder / f"bare-{rank}.ckpt")
    found["taken up without the states"] = without
    write(folder, "draw_and_resume", rank, found)


def resume_elsewhere(scenario: Scenario, folder: Path) -> None:
    """Report the final weights of a training whose first epoch the run in ``scenario.resume`` saved."""
    weights = _resume_epoch(scenario, folder, Path(scenario.resume))
    write(folder, "resume_elsewhere", own_rank(), {"weights": weights})


def _resume_epoch(scenario: Scenario, folder: Path, kept: Path) -> str:
    """Return the weights after the second epoch, resumed from a checkpoint of the run in ``kept``."""
    return _fit(scenario, folder, _shuffled(), checkpoint=kept / "shuffled" / _AT_END)


def _fit(
    scenario: Scenario,
    folder: Path,
    batches: Any,
    callbacks: Any = None,
    checkpoint: Path | None = None,
    **arguments: Any,
) -> str:
    limits = {"limit_train_batches": _BATCHES, "num_sanity_val_steps": 0, **arguments}
    host = trainer(scenario, folder, **limits, callbacks=callbacks, enable_checkpointing=callbacks is not None)
    # A chip that denies generators of its own resumes what the host draws: _Drawing draws there in each step.
    draws = not northbridge.get(scenario.accelerator).present_capabilities().random_numbers.denied
    model = "dropout" if draws else "mlp"
    module = classifier(scenario.namespace, model, folder, "draw_and_resume fit", _Drawing)
    host.fit(module, batches, loader(16, shuffle=False), ckpt_path=checkpoint)
    return fingerprint(module.state_dict())


def _keep(scenario: Scenario, folder: Path) -> list[Any]:
    callbacks = module_of(scenario, "callbacks")
    return [
        callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1),
        callbacks.ModelCheckpoint(dirpath=folder, filename="{step}", save_top_k=-1, every_n_train_steps=_WITHIN),
    ]


def _shuffled() -> Any:
    return loader(workers=1)  # its worker prefetches as soon as the first batch is requested


class Resumable:
    """Batches in a new random order for each epoch; iteration can be resumed within an epoch."""

    def __init__(self) -> None:
        self.batches: list[Any] = list(loader(8 * _BATCHES, shuffle=False))
        self.order: list[int] = []
        self.given: int = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        drawn = torch.randperm(len(self.batches)).tolist()  # also when resumed, as torch's loaders draw a seed
        if self.given == len(self.order):
            self.order, self.given = drawn, 0
        return self._rest()

    def _rest(self) -> Iterator[Any]:
        while self.given < len(self.order):
            self.given += 1
            yield self.batches[self.order[self.given - 1]]

    def state_dict(self) -> dict[str, Any]:
        """Return the order, and the number of batches already returned."""
        return {"order": self.order, "given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of another object."""
        self.order, self.given = state["order"], state["given"]


class _Drawing(_Classifier):
    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        pictures, labels = batch
        return super().training_step((pictures + torch.randn(()).item(), labels), batch_index)

    def validation_step(self, batch: Any, batch_index: int) -> None:
        torch.rand(3, device=self.device)


class RandomStates(NamespaceSuite):
    """An interrupted run that draws on the chip and on the host ends with the weights of a whole run."""

    runs: Runs = in_each(*TRAINERS, devices=(1, 2))
    claims: tuple[str, ...] = ("resume",)
    advice = "Look at the random state of each device: read and put back, it has to give the same numbers again."

    @pytest.mark.parametrize(
        ("interrupted", "through"),
        [
            ("after a sanity check", "through"),
            ("taken up at an epoch's end", "through"),
            ("taken up within an epoch", "through, resumable"),
        ],
    )
    def test_resumed_weights_equal_those_of_an_uninterrupted_run(
        self, chip: RunResult, interrupted: str, through: str
    ) -> None:
        assert chip.each("draw_and_resume", interrupted) == chip.each("draw_and_resume", through)

    def test_weights_differ_without_the_saved_random_states(self, chip: RunResult) -> None:
        for found in chip.ranks("draw_and_resume"):
            assert found["taken up without the states"] != found["through"]

    def test_resume_in_another_process_gives_the_same_weights(
        self, backend: str, namespace: str, devices: int, environ: dict[str, str], chip: RunResult
    ) -> None:
        through = chip.each("draw_and_resume", "through")

        again = run(
            Scenario(backend, namespace, (reference(resume_elsewhere),), devices, resume=str(chip.folder)), environ
        )

        assert again.each("resume_elsewhere", "weights") == through
