"""Calls of the bridge's hooks in a training, and the user's settings that they leave alone."""

from __future__ import annotations

from northbridge_conformance.rank_programs.hooks import BEGIN
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.question import ask
from northbridge_conformance.suite import FABRICS, TRAINERS, Runs, UsesSuite, in_each
from northbridge_conformance.tests.plugin.plugin_suite import ALONE

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
        calls = chip.only("hooks")["calls"]

        assert [name for name in dict.fromkeys(calls) if name in BEGIN] == list(BEGIN)
        assert calls.index("select") < calls.index("forward")

    def test_the_end_of_backward_step_and_evaluation_is_told(self, chip: RunResult, namespace: str) -> None:
        calls: list[str] = chip.only("hooks")["calls"]

        told = [name for name in calls[calls.index("forward") :] if name not in BEGIN]
        assert told == [*_BATCH, *_BATCH, "step", "after_step", *(_EVALUATION if namespace in TRAINERS else [])]


class UsersEnvironment(UsesSuite):
    """The user's settings, in the environment and in the process, stay."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "Look at the Bridge's prepare(): os.environ.setdefault() leaves what the user has set; and at what the vendor's"
        " software sets for the whole process when it is imported or a card is taken: signals, threads, how processes"
        " are started."
    )

    def test_prepare_replaces_no_variable_of_the_users(self, chip: RunResult) -> None:
        found = chip.only("hooks.set_variables")

        assert found["changed"] == []
        assert found["overwritten"] == []

    def test_a_training_leaves_every_variable_as_it_was(self, chip: RunResult) -> None:
        assert chip.only("hooks")["changed"] == []

    def test_a_later_process_counts_as_many_devices(
        self, backend: str, environ: dict[str, str], chip: RunResult
    ) -> None:
        added = chip.only("hooks")["added"]
        users: tuple[dict[str, str], ...] = ({}, added)
        asked = [ask("software", backend, *ALONE, environ=environ, user=user).facts for user in users]
        first, later = (facts["looks"][0]["count"] if "looks" in facts else facts["error"] for facts in asked)

        assert later == first, f"it inherits {added}"

    def test_a_training_leaves_the_processs_settings(self, chip: RunResult) -> None:
        assert chip.only("hooks")["settings"] == {}
