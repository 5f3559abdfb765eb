"""Several devices, through the Trainer, with the user's own arguments for DDP, and ranks whose weights must agree."""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
    fp16_compress_hook,
    fp16_compress_wrapper,
)
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook

import northbridge
from northbridge.errors import WeightsDisagreeError
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import _Classifier, build, classifier, fabric, is_trainer, module_of, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    Differences,
    EqualWeights,
    NamespaceSuite,
    Runs,
    cpu_run,
    in_each,
    several_devices,
)


def train_with_options(scenario: Scenario, folder: Path) -> None:
    """Train with a stock strategy object, a registered variant, and communication hooks; each rank reports.

    A hook does not compress to a dtype that the chip denies; then nothing is compressed.
    """
    stock = module_of(scenario, "strategies").DDPStrategy
    calls: list[int] = []
    denied = _denied(scenario.accelerator)
    compress_hook = allreduce_hook if "float16" in denied else fp16_compress_hook

    @wraps(fp16_compress_hook)  # DDP reads the annotations of a hook
    def counting_hook(state: Any, bucket: Any) -> Any:
        calls.append(bucket.index())
        return compress_hook(state, bucket)

    _train(scenario, folder, "object", stock(find_unused_parameters=True, gradient_as_bucket_view=True))
    _train(scenario, folder, "name", "ddp_find_unused_parameters_true")
    rank = _train(scenario, folder, "hook", stock(ddp_comm_hook=counting_hook), model="mlp")
    write(folder, "train_with_options hook calls", rank, {"calls": len(calls)})
    averaging: Any = PostLocalSGDState
    options: dict[str, Any] = {
        "static_graph": {"static_graph": True},
        "bucket_cap_mb": {"bucket_cap_mb": 0.001},
        "bf16 compression": {"ddp_comm_hook": allreduce_hook if "bfloat16" in denied else bf16_compress_hook},
        "fp16 compression, wrapped": {
            "ddp_comm_hook": allreduce_hook,
            "ddp_comm_wrapper": None if "float16" in denied else fp16_compress_wrapper,
        },
        "model_averaging_period": {
            "ddp_comm_state": averaging(process_group=None, subgroup=None, start_localSGD_iter=2),
            "ddp_comm_hook": post_localSGD_hook,
            "model_averaging_period": 3,
        },
    }
    for name, arguments in options.items():
        _train(scenario, folder, name, stock(**arguments), model="mlp")


def _denied(accelerator: str) -> set[str]:
    if accelerator == "cpu":
        return set()
    claims = northbridge.load(accelerator).present_capabilities().claims()
    return {name for name, claim in claims.items() if claim.denied}


def _train(scenario: Scenario, folder: Path, topic: str, strategy: Any, model: str = "unused") -> int:
    host = trainer(scenario, folder, strategy=strategy)
    topic = f"train_with_options {topic}"
    module = classifier(scenario.namespace, model, folder, f"{topic} fit", _Inspecting)
    host.fit(module, loader())
    write(folder, topic, host.global_rank, {**module.options, "kept": host.strategy is strategy})
    rank: int = host.global_rank
    return rank


class _Inspecting(_Classifier):
    def on_train_start(self) -> None:
        ddp = self.trainer.strategy.model
        names = ("find_unused_parameters", "gradient_as_bucket_view", "static_graph", "bucket_bytes_cap")
        self.options = {name: getattr(ddp, name) for name in names}


class DistributedTraining(EqualWeights):
    """A Trainer with several devices trains as Lightning's own does on as many CPU ranks over Gloo.

    The dataset has an odd number of samples, so the ranks' sampler repeats some.
    """

    runs: Runs = several_devices(*TRAINERS)
    claims: tuple[str, ...] = ("ddp_averaging",)
    advice = (
        "Where one device trains right and several do not, look at the sum all-reduce of the library, at its"
        " broadcast of weights and buffers, and at which device each rank takes."
    )

    def test_the_weights_differ_from_those_of_one_device(self, namespace: str, chip: RunResult) -> None:
        alone = cpu_run(namespace, 1).only("train mlp")["weights"]

        assert chip.ranks("train mlp")[0]["weights"] != alone

    def test_each_rank_trains_on_its_own_device(
        self, device: northbridge.Device, devices: int, chip: RunResult
    ) -> None:
        for index, rank in enumerate(chip.ranks("train mlp")):
            name = str(device.root(index))
            assert rank["root device"] == rank["module device"] == name
            assert rank["parameter devices"] == [name]
            assert rank["world size"] == devices

    def test_environment_changes_match_a_cpu_run(self, chip: RunResult, cpu: RunResult) -> None:
        # Lightning adds a rank's own variables, such as its number.
        topic = "after train mlp"
        assert chip.each(topic, "changed") == cpu.each(topic, "changed")

    def test_tied_weights_stay_tied_on_each_rank(self, chip: RunResult, cpu: RunResult) -> None:
        for topic in ("train tied", "after train tied"):
            assert chip.each(topic, "parameters") == cpu.each(topic, "parameters")

    def test_fit_validate_test_and_predict_match_a_cpu_run(self, differences: Differences) -> None:
        assert differences("run_stages") == []

    def test_manual_optimization_with_two_optimizers(self, differences: Differences) -> None:
        assert differences("optimize_manually") == []


class Strategies(NamespaceSuite):
    """A stock strategy object and a registered variant keep the user's arguments."""

    runs: Runs = in_each(*TRAINERS, devices=(2,))
    claims: tuple[str, ...] = ("ddp_averaging",)
    advice = (
        "Look at the Collective's ddp_options(), which the user's own arguments win over, and at all_reduce of"
        " bfloat16 and float16, which hooks compress to."
    )

    def test_a_stock_strategy_object_keeps_its_arguments(self, chip: RunResult) -> None:
        for found in chip.ranks("train_with_options object"):
            assert found["find_unused_parameters"]
            assert found["gradient_as_bucket_view"]
            assert found["kept"]

    def test_ddp_options_are_applied(self, chip: RunResult) -> None:
        assert chip.each("train_with_options static_graph", "static_graph") == [True] * 2
        assert chip.each("train_with_options bucket_cap_mb", "bucket_bytes_cap") == [1048] * 2  # 0.001 MiB
        for option in ("static_graph", "bucket_cap_mb"):
            assert chip.each(f"train_with_options {option} fit", "weights") == chip.each("train mlp", "weights")

    @pytest.mark.parametrize(
        ("hook", "dtype"),
        [("bf16 compression", "bfloat16"), ("fp16 compression, wrapped", "float16"), ("model_averaging_period", None)],
    )
    def test_torch_communication_hooks_work_and_ranks_agree(
        self, backend: str, chip: RunResult, hook: str, dtype: str | None
    ) -> None:
        found = chip.each(f"train_with_options {hook} fit", "weights")

        assert found[0] == found[1]
        compresses = dtype is not None and not denies(backend, dtype)
        assert (found[0] != chip.ranks("train mlp")[0]["weights"]) == compresses

    def test_ddp_find_unused_parameters_true_is_applied(self, chip: RunResult) -> None:
        assert chip.each("train_with_options name", "find_unused_parameters") == [True] * 2

    @pytest.mark.parametrize("way", ["object", "name"])
    def test_a_model_with_unused_parameters_trains(self, differences: Differences, way: str) -> None:
        assert differences(f"train_with_options {way} fit", "weights") == []

    def test_a_communication_hook_is_called(self, backend: str, chip: RunResult) -> None:
        # Lightning registers hooks only for CUDA, and silently drops others.
        assert all(rank["calls"] > 0 for rank in chip.ranks("train_with_options hook calls"))
        compressed = {rank["weights"] for rank in chip.ranks("train_with_options hook fit")}
        assert len(compressed) == 1
        assert (compressed != {chip.ranks("train mlp")[0]["weights"]}) == (not denies(backend, "float16"))


def denies(backend: str, claim: str) -> bool:
    """Return True if the chip denies ``claim``; a hook for that dtype then compresses nothing."""
    return northbridge.load(backend).present_capabilities().claims()[claim].denied


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
