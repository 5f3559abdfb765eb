"""Jobs on several vendors' simulated chips and the CPU: each node is a process of ``mixed_job.py`` and its ranks."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.broken_plugins import write_distribution
from tests.core.conftest import VENDORS, Install
from tests.core.lightning.conftest import Build, Claims, refusal
from tests.core.lightning.strategies.mixed_job import (
    BATCH,
    STEPS,
    loss_of,
    make_model,
    make_optimizer,
    rows,
    weights_of,
)
from tests.docs.page import samples
from tests.scripts import Ran, fork_script, wait
from torch.utils.data import DataLoader, DistributedSampler

from northbridge.capabilities import no
from northbridge.errors import ArgumentsError, NamespaceError, UnsupportedError
from northbridge.flight_recorder.analysis.judgement import judge
from northbridge.flight_recorder.analysis.record_files import FolderError, read_folder
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.strategies.gradients import Vendors
from northbridge_conformance.runs.processes import reserve_port
from northbridge_cpu_sim import ROUNDING_OPTIONS
from northbridge_cpu_sim.device import SimDevice

SCRIPT = Path(__file__).parent / "mixed_job.py"
TRAINER, FABRIC = "lightning.pytorch", "lightning.fabric"

Begin = Callable[..., list[tuple[Any, Path, Path]]]
Launch = Callable[[str, int, int], Mapping[str, str]]


def by_hand(port: str, node: int, nodes: int) -> Mapping[str, str]:
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": str(node)}


def torchrun(port: str, node: int, nodes: int) -> Mapping[str, str]:
    """What torchrun sets for the one rank of each node."""
    told = {"RANK": node, "GROUP_RANK": node, "LOCAL_RANK": 0, "WORLD_SIZE": nodes, "LOCAL_WORLD_SIZE": 1}
    return {
        **{name: str(number) for name, number in told.items()},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "1",
    }


def slurm(port: str, node: int, nodes: int) -> Mapping[str, str]:
    """What srun sets for the one task of each node."""
    told = {"NTASKS": nodes, "NTASKS_PER_NODE": 1, "NNODES": nodes, "NODEID": node, "PROCID": node, "LOCALID": 0}
    listed = {"NODELIST": "127.0.0.1", "JOB_NODELIST": "127.0.0.1", "JOB_ID": "1", "JOB_NAME": "train"}
    variables = {f"SLURM_{name}": str(text) for name, text in {**told, **listed}.items()}
    return {**variables, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Start a node for each of ``chips``; ``rounds`` names the nodes whose chips round differently."""

    def beginning(
        chips: Sequence[str],
        *,
        script: Path = SCRIPT,
        launch: Launch = by_hand,
        rounds: Sequence[int] = (),
        environ: Mapping[str, str] | None = None,
        of_nodes: Sequence[dict[str, Any]] = ({},) * 3,
        **options: Any,
    ) -> list[tuple[Any, Path, Path]]:
        port, started = str(reserve_port()), []
        for node, (chip, each) in enumerate(zip(chips, of_nodes, strict=False)):
            own = {"NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path / f"server-{node}")}
            if chip in ("hpu", "npu", "sdaa", "xpu"):
                own["NORTHBRIDGE_SIMULATE"] = chip
            variables = {**os.environ, **launch(port, node, len(chips)), **own, **(environ or {})}
            asked = {"accelerator": chip, "nodes": len(chips), **options, **each}
            printed = tmp_path / f"node-{node}.txt"
            with printed.open("wb") as output:
                process = fork_script(
                    script,
                    json.dumps(asked),
                    folder=tmp_path,
                    output=output,
                    environ={**variables, **(ROUNDING_OPTIONS if node in rounds else {})},
                )
            started.append((process, script, printed))
        return started

    return beginning


def found_by(ends: Sequence[Ran]) -> list[dict[str, Any]]:
    """Return what each rank has found."""
    assert [end.status for end in ends] == [0] * len(ends), "\n".join(end.said for end in ends)
    lines = [line for end in ends for line in end.said.splitlines() if line.startswith("found ")]
    return [json.loads(line.removeprefix("found ")) for line in lines]


@pytest.fixture
def run(begin: Begin) -> Callable[..., list[dict[str, Any]]]:
    """Do what ``begin`` does, and return what each rank has found."""
    return lambda chips, **more: found_by([wait(*each) for each in begin(chips, **more)])


def train_alone(ranks: int, epochs: int) -> tuple[list[float], float]:
    """Return the weights that one process gets on the CPU, and the last epoch's loss as the ranks log it."""
    data, model = rows(), make_model()
    optimizer = make_optimizer("SGD", model)
    samplers: list[Any] = [DistributedSampler(data, ranks, rank, seed=3) for rank in range(ranks)]
    loss = 0.0
    for epoch in range(epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        loaders: list[Any] = [DataLoader(data, BATCH, sampler=sampler) for sampler in samplers]
        loss, seen = 0.0, 0
        for batches in zip(*loaders, strict=True):
            optimizer.zero_grad()
            mean = sum((loss_of(model, each) for each in batches), start=torch.zeros(())) / ranks
            mean.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            loss, seen = loss + mean.item() * len(batches[0]), seen + len(batches[0])
        loss /= seen
    return weights_of(model), loss


JOBS: dict[str, tuple[tuple[str, ...], int, Launch]] = {
    "hpu + sdaa": (("hpu", "sdaa"), 1, torchrun),
    "2 hpu + 2 sdaa": (("hpu", "sdaa"), 2, by_hand),
    "2 hpu + 2 cpu": (("hpu", "cpu"), 2, by_hand),
    "sdaa + cpu_sim": (("sdaa", "cpu_sim"), 1, slurm),
    "npu + xpu + cpu": (("npu", "xpu", "cpu"), 1, by_hand),
    "one vendor": (("hpu", "hpu"), 1, by_hand),
}


@pytest.mark.parametrize(("chips", "devices", "launch"), JOBS.values(), ids=JOBS)
def test_ranks_have_the_weights_of_one_process(
    run: Callable[..., Any], chips: tuple[str, ...], devices: int, launch: Launch
) -> None:
    ranks = len(chips) * devices

    found = [each[TRAINER] for each in run(chips, devices=devices, launch=launch, epochs=ranks)]

    assert sorted(each["rank"] for each in found) == list(range(ranks))
    assert {each["device"].partition(":")[0] for each in found} == set(chips)
    assert len({(*each["weights"], each["loss"]) for each in found}) == 1  # to the bit
    weights, loss = train_alone(ranks, ranks)
    assert found[0]["weights"] == pytest.approx(weights, abs=1e-6)
    assert found[0]["loss"] == pytest.approx(loss, abs=1e-5)
    assert ranks != 2 or found[0]["steps"] == STEPS


@pytest.mark.parametrize("alone", ["", "1"], ids=["HostCollective", "None"])
def test_chips_without_a_library_train(run: Callable[..., Any], install: Install, alone: str) -> None:
    """Each of their ranks is one of those that add up over Gloo."""
    path = install("hosted").environ()["PYTHONPATH"]

    jobs = run(("hosted", "hpu"), devices=2, epochs=4, environ={"PYTHONPATH": path, "HOSTED_ALONE": alone})

    found = [each[TRAINER]["weights"] for each in jobs]
    assert found == [found[0]] * 4
    assert found[0] == pytest.approx(train_alone(4, 4)[0], abs=1e-6)


SILENT = """
from dataclasses import replace

import northbridge
import northbridge_right as right


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    made = right.backend("silent")
    return replace(made, capabilities=replace(made.capabilities, broadcast=northbridge.no("it hangs")))
"""


def test_library_has_to_broadcast_where_it_is_used(begin: Begin, tmp_path: Path) -> None:
    """Two nodes with one rank each use it as two ranks of one node do; a rank that is alone does not."""
    write_distribution(
        tmp_path, "northbridge-silent", "1.0", {"northbridge.backends": {"silent": "northbridge_silent"}}
    )
    (tmp_path / "northbridge_silent.py").write_text(SILENT)
    path = os.pathsep.join([str(tmp_path), str(VENDORS / "wrong"), os.environ.get("PYTHONPATH", "")])

    alone = found_by([wait(*each) for each in begin(("silent", "cpu"), environ={"PYTHONPATH": path})])
    ends = [wait(*each) for each in begin(("silent", "silent", "cpu"), environ={"PYTHONPATH": path})]

    assert alone[0][TRAINER]["weights"] == alone[1][TRAINER]["weights"]
    assert [end.status for end in ends] == [1, 1, 1]
    for end in ends[:2]:
        said = "'silent' does not support broadcast, which several ranks need: it hangs. Fix: one rank on 'silent'"
        assert f"UnsupportedError: {said}" in end.said


def test_every_namespace_trains_alike(run: Callable[..., Any]) -> None:
    first, second = run(("hpu", "cpu"), namespaces=list(NAMESPACES), mixed={"sync_every": 7})

    for namespace in NAMESPACES:
        assert first[namespace]["weights"] == second[namespace]["weights"]
    for host, other in (("lightning.pytorch", "pytorch_lightning"), ("lightning.fabric", "lightning_fabric")):
        assert first[host]["weights"] == first[other]["weights"]
        assert first[host]["loss"] == second[host]["loss"]


def test_auto_and_mixed_precision_train(run: Callable[..., Any]) -> None:
    """Where no chip is, ``auto`` is the CPU."""
    found = [each[TRAINER] for each in run(("auto", "hpu"), precision="bf16-mixed", optimizer="AdamW", mixed={})]

    assert [each["device"] for each in found] == ["cpu", "hpu:0"]
    assert len({tuple(each["weights"]) for each in found}) == 1


@pytest.mark.parametrize(
    ("chips", "gradients", "precision", "mixed", "mean"),
    [
        # In bfloat16, 256 and 1 are 256.
        (("cpu", "cpu", "hpu"), [768.0, 3.0, 3.0], "bfloat16", {}, 258.0),
        (("hpu", "cpu"), [4.0, 8.0], "float32", {"weights": {"hpu": 3, "cpu": 1}}, 5.0),
    ],
    ids=["16 bit", "weights"],
)
def test_gradients_are_averaged(
    run: Callable[..., Any],
    chips: tuple[str, ...],
    gradients: list[float],
    precision: str,
    mixed: dict[str, Any],
    mean: float,
) -> None:
    found = run(
        chips,
        gradients=gradients,
        precision=precision,
        mixed=mixed,
        uneven=bool(mixed),
        namespaces=[FABRIC],
    )

    assert [each[FABRIC]["weights"] for each in found] == [[-mean]] * len(chips)
    assert [each["warned"] for each in found] == [[]] * len(chips)  # of batches of other sizes, the weights may be


def test_modules_in_one_backward_have_own_gradients(run: Callable[..., Any]) -> None:
    gradients = [1.0, 3.0, 5.0, 7.0]

    found = run(("hpu", "cpu"), devices=2, gradients=gradients, precision="float32", modules=2, namespaces=[FABRIC])

    assert [each[FABRIC]["weights"] for each in found] == [[-4.0 * 30, -40.0 * 30]] * 4


def test_other_batches_are_a_warning(run: Callable[..., Any]) -> None:
    first, second = run(("hpu", "cpu"), gradients=[1.0, 1.0], precision="float32", uneven=True, namespaces=[FABRIC])

    (said,) = first["warned"]
    assert said == (
        "the ranks' first batches have other sizes (1 on rank 0, 2 on rank 1), and each rank counts alike. Fix: the"
        " same batch size, or weights="
    )
    assert second["warned"] == []


MUON = {"optimizer": "Muon", "rounds": [1]}
"""An optimizer whose step multiplies matrices, which the second chip rounds differently."""


@pytest.mark.parametrize(("sync_every", "least", "most"), [(1000, 2e-3, 1e-2), (5, 5e-4, 2e-3), (1, 1e-4, 1e-3)])
def test_drift_grows_between_synchronizations(
    run: Callable[..., Any], sync_every: int, least: float, most: float
) -> None:
    found = [each[TRAINER] for each in run(("hpu", "cpu_sim"), mixed={"sync_every": sync_every}, **MUON)]

    assert len({each["distance"] for each in found}) == 1
    assert least < found[0]["distance"] < most
    assert found[0]["weights"] == found[1]["weights"]  # made equal at the end


def test_distance_is_logged(run: Callable[..., Any], tmp_path: Path) -> None:
    first, _ = run(("hpu", "cpu_sim"), mixed={"sync_every": 10}, logs=True, **MUON)

    lines = (tmp_path / "logged/metrics.csv").read_text().splitlines()
    logged = [row["distance_of_replicas"] for row in csv.DictReader(lines)]
    distances = [float(each) for each in logged if each]
    assert len(distances) == STEPS // 10
    assert distances[-1] == pytest.approx(first[TRAINER]["distance"])


def test_drift_above_the_tolerance_is_an_error(begin: Begin) -> None:
    started = begin(("hpu", "cpu_sim"), mixed={"sync_every": 10, "tolerance": 1e-3}, **MUON)

    for end in [wait(*each) for each in started]:
        assert end.status == 1
        assert "WeightsDisagreeError: rank 1 (cpu_sim) is " in end.said
        assert " from rank 0 in 'inner.0.weight' at step 10, above tolerance=0.001. Fix: a smaller" in end.said


def test_chip_that_skips_the_synchronization_is_found(run: Callable[..., Any], tmp_path: Path) -> None:
    write_distribution(tmp_path, "northbridge-apart", "1.0", {"northbridge.backends": {"apart": "northbridge_apart"}})
    path = os.pathsep.join([str(tmp_path), str(VENDORS / "wrong"), os.environ.get("PYTHONPATH", "")])

    found = [each[TRAINER] for each in run(("hpu", "apart"), environ={"PYTHONPATH": path}, **MUON)]

    assert found[0]["weights"] != found[1]["weights"]
    assert found[0]["distance"] > 1e-3  # and with sync_every=1, one step's rounding is less


def test_checkpoint_resumes_on_other_chips(run: Callable[..., Any], tmp_path: Path) -> None:
    run(("hpu", "sdaa"), epochs=1, mixed={"sync_every": 7}, save="first.ckpt")

    found = [each[TRAINER] for each in run(("cpu", "npu"), resume="first.ckpt", logs=True)]

    assert torch.load(tmp_path / "first.ckpt", weights_only=True)["global_step"] == STEPS // 2
    assert found[0]["weights"] == found[1]["weights"] == pytest.approx(train_alone(2, 2)[0], abs=1e-6)
    lines = csv.DictReader((tmp_path / "logged/metrics.csv").read_text().splitlines())
    steps = [int(row["step"]) for row in lines if row["distance_of_replicas"]]
    assert steps == list(range(STEPS // 2 + 1, STEPS + 1))


def test_killed_rank_ends_the_job(begin: Begin) -> None:
    started = begin(("hpu", "cpu"), ends={"rank": 1, "step": 5, "signal": "SIGKILL"})

    first, second = [wait(*each) for each in started]

    assert (first.status, second.status) == (1, -signal.SIGKILL)
    assert "CollectiveError: " in first.said
    assert "Fix: see the other ranks' errors first" in first.said


def test_stopped_rank_is_named_across_vendors(begin: Begin, tmp_path: Path) -> None:
    flight, ends = tmp_path / "flight", {"rank": 3, "step": 7, "signal": "SIGSTOP"}
    environ = {"NORTHBRIDGE_FLIGHT_RECORDER": str(flight)}
    first, second = begin(("hpu", "sdaa"), devices=2, mixed={"timeout": 200}, environ=environ, ends=ends, epochs=4)

    def find_chains() -> tuple[str, ...]:
        with suppress(FolderError):  # no rank has written yet
            return judge(read_folder(flight), time.time()).chains
        return ()

    deadline = time.monotonic() + 200
    while not any("rank 3" in each for each in find_chains()) and time.monotonic() < deadline:
        time.sleep(0.5)
    chains = find_chains()
    os.killpg(second[0].pid, signal.SIGKILL)
    ended = wait(*first)

    group = r"group \d \(ranks"
    waits = (
        rf"rank 2 \(all_reduce #\d+ of {group} 0, 2\)\), which waits for rank 3 \(all_reduce #\d+ of {group} 2, 3\)\)"
    )
    assert re.search(f"rank 0 \\(.*, which waits for {waits}: look at rank 3 first", "\n".join(chains)), chains
    assert ended.status == 1
    assert "CollectiveError: all_reduce of gradients among 2 ranks failed over Gloo" in ended.said


def test_missing_node_is_named(begin: Begin) -> None:
    (only,) = begin(("hpu",), nodes=2, mixed={"timeout": 3})

    end = wait(*only)

    assert end.status == 1
    assert "rank 1 did not answer in 3 s" in end.said


def test_nodes_with_other_options_are_an_error(begin: Begin) -> None:
    started = begin(("hpu", "cpu"), of_nodes=[{"mixed": {"sync_every": every}} for every in (1, 2)])

    for end in [wait(*each) for each in started]:
        assert end.status == 1
        assert "rank 0 trains on any chip (sync_every=1, " in end.said


WRONG = {
    "every": ({"sync_every": 0}, "sync_every=0 is not 1 or more. Fix: sync_every=100"),
    "text": ({"sync_every": "5"}, "sync_every='5' is not 1 or more. Fix: sync_every=100"),
    "tolerance": ({"tolerance": 0}, "tolerance=0 is not above 0. Fix: tolerance=1e-2"),
    "weights": ({"weights": {"hpu": -1}}, "weights= gives 'hpu' -1. Fix: a number above 0"),
    "list": ({"weights": [2, 1]}, "weights=[2, 1] is not a mapping. Fix: a number for each name"),
    "hook": (
        {"ddp_comm_hook": print},
        "ddp_comm_hook=: 'ddp_mixed' reduces gradients by its own hook. Fix: leave it out",
    ),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_arguments(namespace: Namespace, arguments: dict[str, Any], said: str) -> None:
    ours = importlib.import_module(namespace.home).MixedDDPStrategy

    assert refusal(ArgumentsError, ours, **arguments) == said


def test_weights_name_each_backend() -> None:
    vendors = Vendors(("hpu", "cpu", "cpu"), leader=1, inner=None, leaders=None, count=3)

    assert vendors.mean_factor({"hpu": 2, "cpu": 1}) == 4
    assert refusal(ArgumentsError, vendors.mean_factor, {"hpu": 1}) == (
        "weights= names hpu, the job has cpu, hpu. Fix: name each"
    )


@pytest.mark.usefixtures("chip")
def test_which_jobs_have_the_cpu(namespace: Namespace, build: Build) -> None:
    mixed, plain = (build(accelerator="cpu", devices=2, strategy=each).strategy for each in ("ddp_mixed", "ddp"))

    assert type(mixed) is importlib.import_module(namespace.home).MixedDDPStrategy
    assert (mixed.backend.name, mixed.root_device, mixed.num_processes) == ("cpu", torch.device("cpu"), 2)
    assert build(accelerator="cpu", strategy="ddp_mixed", devices="auto").strategy.num_processes == 1
    assert type(plain).__module__.startswith(namespace.name)


@pytest.mark.usefixtures("chip")
def test_what_a_mixed_job_cannot_run(
    namespace: Namespace, build: Build, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = importlib.import_module(namespace.home).MixedDDPStrategy
    other = "fabric" if namespace.is_trainer else "pytorch"
    foreign = importlib.import_module(f"northbridge.lightning.{other}").MixedDDPStrategy

    assert refusal(UnsupportedError, build, accelerator="cpu_sim", devices=2, strategy=ours(start_method="spawn")) == (
        "start_method='spawn': each node of a mixed job runs the script. Fix: leave it out"
    )
    monkeypatch.setattr(SimDevice, "grad_scaler", lambda _: torch.amp.GradScaler("cpu_sim"), raising=False)
    assert refusal(UnsupportedError, build, accelerator="cpu_sim", strategy="ddp_mixed", precision="16-mixed") == (
        "precision='16-mixed': 'cpu_sim' has a gradient scaler of its own, which may wait for all ranks. Fix:"
        " precision='bf16-mixed'"
    )
    claims(bfloat16=no("it has none"))
    with pytest.raises(UnsupportedError, match=r"bf16-mixed.*it has none"):
        build(accelerator="cpu_sim", strategy="ddp_mixed", precision="bf16-mixed")
    assert "Fix: import it from" in refusal(NamespaceError, build, accelerator="cpu_sim", strategy=foreign())
    stock = namespace.module("accelerators").CUDAAccelerator()
    for accelerator, name in (("gpu", "'gpu'"), (stock, "CUDAAccelerator")):
        assert refusal(UnsupportedError, build, accelerator=accelerator, strategy="ddp_mixed") == (
            f"accelerator={name}: 'ddp_mixed' trains on Northbridge's backends and the CPU. Fix: another strategy="
        )


def test_page_shows_what_its_script_prints(begin: Begin, tmp_path: Path) -> None:
    (script,) = samples("docs/mixed.md", "py")
    (tmp_path / "train.py").write_text(script.code)

    ends = [wait(*each) for each in begin(("hpu", "sdaa"), script=tmp_path / "train.py")]

    assert [end.status for end in ends] == [0, 0], ends
    for end, shown in zip(ends, samples("docs/mixed.md", "console"), strict=True):
        assert shown.code.splitlines()[-1] in end.said.splitlines(), end.said
