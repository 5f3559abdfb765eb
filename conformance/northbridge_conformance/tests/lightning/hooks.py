"""Calls of the bridge's hooks in a training, and the user's settings that they leave alone."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import northbridge
from northbridge.processes.environment import environment_at_start
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import _Classifier, build, classifier, fabric, is_trainer, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.question import ask
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import FABRICS, TRAINERS, Runs, UsesSuite, in_each
from northbridge_conformance.tests.plugin.declaration import ALONE

BEGIN = ("prepare", "load", "prepare_rank", "select")
"""The calls to a bridge and to its device before a training, in this order."""

STEP = ("after_backward", "after_step", "after_evaluation")
"""The calls to a bridge during a training."""

_OF_THE_USER = "as the user has it"
"""An arbitrary value that stands for the user's own."""

_calls: list[str] = []


def record_calls(scenario: Scenario, folder: Path) -> None:
    """Train for one step of two batches; report the calls in their order.

    Also report the variables that the process was given, and its settings, that changed. A vendor's import may have
    written variables of its own when torch was imported, which are not the user's.
    """
    backend = northbridge.get(scenario.accelerator)
    for name in (*BEGIN[:-1], *STEP):
        _note(backend.bridge, name)
    _note(backend.device, "select")
    torch.use_deterministic_algorithms(True, warn_only=True)  # some users set it; it is not torch's default
    before, settings = environment_at_start(), _settings()
    if is_trainer(scenario.namespace):
        limits = {"limit_train_batches": 2, "accumulate_grad_batches": 2, "limit_val_batches": 1}
        host = trainer(scenario, folder, max_epochs=1, num_sanity_val_steps=0, **limits)
        host.fit(
            classifier(scenario.namespace, "mlp", folder, "record_calls fit", _Hooked), loader(), loader(shuffle=False)
        )
    else:
        _loop(fabric(scenario))
    now = _settings()
    torch.use_deterministic_algorithms(False)
    changed = {name: [str(was), str(now[name])] for name, was in settings.items() if was != now[name]}
    added = {name: value for name, value in os.environ.items() if name not in before}
    found = {"calls": _calls, "changed": changed_since(before), "added": added, "settings": changed}
    write(folder, "record_calls", 0, found)


def _settings() -> dict[str, object]:
    """Return the process settings, other than the environment, that a user may have changed."""
    return {
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "dtype by default": torch.get_default_dtype(),
        "precision of float32 products": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "how processes are started": multiprocessing.get_start_method(),  # Lightning reads it, which fixes it
        "the garbage collector": (gc.isenabled(), *gc.get_threshold()),
        "the handler of SIGINT": signal.getsignal(signal.SIGINT),
        "the handler of SIGTERM": signal.getsignal(signal.SIGTERM),
        "the hook for exceptions": sys.excepthook,
        "the working folder": str(Path.cwd()),
    }


def _note(part: Any, name: str) -> None:
    original = getattr(part, name)

    def noting(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        _calls.append(name)
        return result

    setattr(part, name, noting)


def _watch(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    first: Any = next(net.parameters())
    first.register_post_accumulate_grad_hook(lambda _: _calls.append("backward"))
    optimizer.register_step_post_hook(lambda *_: _calls.append("step"))


def _loop(host: Any) -> None:
    host.launch()
    plain: Any = build("mlp")
    made = torch.optim.SGD(plain.parameters(), lr=0.1)
    net, optimizer = host.setup(plain, made)
    _watch(plain, made)
    for number, (images, labels) in zip(range(2), host.setup_dataloaders(loader()), strict=False):
        _calls.append("forward")
        host.backward(cross_entropy(net(images), labels))
        if number:
            optimizer.step()


class _Hooked(_Classifier):
    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        _calls.append("forward")
        return super().training_step(batch, batch_index)

    def validation_step(self, batch: Any, batch_index: int) -> None:
        _calls.append("evaluation")
        self.net(batch[0])

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        _watch(self, optimizer)
        return optimizer


def set_variables(scenario: Scenario, folder: Path) -> None:
    """Report the variables that ``prepare()`` sets, and the user's values that changed; nothing is loaded."""
    bridge = northbridge.get(scenario.accelerator).bridge
    before = dict(os.environ)
    try:
        bridge.prepare()
        found = {"changed": changed_since(before)}
        added = sorted(set(os.environ) - set(before))
        os.environ.update(dict.fromkeys(added, _OF_THE_USER))
        try:
            bridge.prepare()
            found["overwritten"] = [name for name in added if os.environ.get(name) != _OF_THE_USER]
        except northbridge.VariableError as error:
            # An invalid value may be refused, but not replaced.
            found["overwritten"] = [] if os.environ.get(error.variable) == _OF_THE_USER else [error.variable]
    finally:
        os.environ.clear()
        os.environ.update(before)
    write(folder, "set_variables", 0, {**found, "set": added})


def changed_since(before: dict[str, str]) -> list[str]:
    """Return the variables whose values differ from ``before`` or that are gone."""
    return sorted(name for name, value in before.items() if os.environ.get(name) != value)


_BATCH = ["forward", "backward", "after_backward"]
_EVALUATION = ["evaluation", "after_evaluation"]


class BridgeHooks(UsesSuite):
    """The bridge's hooks are called in the documented order, each after the phase whose end it marks."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "Look at the Bridge: prepare() comes before load(), prepare_rank() before a device is selected, and the hooks"
        " of a step when it is done. A method that is overridden calls no other one."
    )

    def test_the_software_is_loaded_before_a_device_is_acquired(self, chip: RunResult) -> None:
        calls = chip.only("record_calls")["calls"]

        assert [name for name in dict.fromkeys(calls) if name in BEGIN] == list(BEGIN)
        assert calls.index("select") < calls.index("forward")

    def test_hooks_run_after_backward_step_and_evaluation(self, chip: RunResult, namespace: str) -> None:
        calls: list[str] = chip.only("record_calls")["calls"]

        told = [name for name in calls[calls.index("forward") :] if name not in BEGIN]
        assert told == [*_BATCH, *_BATCH, "step", "after_step", *(_EVALUATION if namespace in TRAINERS else [])]


class UserSettings(UsesSuite):
    """The user's settings, in the environment and in the process, stay."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "Look at the Bridge's prepare(): os.environ.setdefault() leaves what the user has set; and at what the vendor's"
        " software sets for the whole process when it is imported or a card is taken: signals, threads, how processes"
        " are started."
    )

    def test_prepare_overwrites_no_environment_variable(self, chip: RunResult) -> None:
        found = chip.only("set_variables")

        assert found["changed"] == []
        assert found["overwritten"] == []

    def test_training_changes_no_environment_variable(self, chip: RunResult) -> None:
        assert chip.only("record_calls")["changed"] == []

    def test_child_process_counts_the_same_number_of_devices(
        self, backend: str, environ: dict[str, str], chip: RunResult
    ) -> None:
        added = chip.only("record_calls")["added"]
        given: tuple[dict[str, str], ...] = ({}, added)
        asked = [ask("software:load", backend, *ALONE, environ=environ, user=user).facts for user in given]
        first, later = (facts["looks"][0]["count"] if "looks" in facts else facts["error"] for facts in asked)

        assert later == first, f"it inherits {added}"

    def test_training_keeps_process_settings(self, chip: RunResult) -> None:
        assert chip.only("record_calls")["settings"] == {}
