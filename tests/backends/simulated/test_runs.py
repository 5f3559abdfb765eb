"""Runs as users start them, of which the chip's page shows some: the doctor, a script and its ranks, and a resumption.

The ranks are one on each card of a server, one that is killed, and 2 x 2 on two nodes that a network joins. Where no
network can be made, hpu's test_documented_examples.py trains on two nodes that share a loopback address.
"""

from __future__ import annotations

import json
import re
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.jobs import Start, ask_doctor, succeed_together
from tests.backends.simulation.network import Node
from tests.backends.simulation.processes import clean_environment
from tests.scripts import run_forked

from northbridge_conformance.runs.processes import tells_of_a_launcher
from northbridge_cpu_sim import Server


class TestTheDoctor:
    """Its output if nothing is wrong."""

    def test_the_page_tells_which_device_is_which_card(self, sim: SimChip, environment: dict[str, str]) -> None:
        said = ask_doctor(sim, environment)

        assert said.returncode == 0, said.stderr
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} northbridge doctor {sim.name}", said.stdout)

    def test_contract_holds_and_one_and_two_cards_train(
        self, sim: SimChip, environment: dict[str, str], mode: dict[str, str]
    ) -> None:
        said = ask_doctor(sim, environment, "--acquire", "--train", "--json", **mode)

        found: dict[str, Any] = json.loads(said.stdout)
        (report,) = found["backends"]
        findings = report["contract"]["findings"]
        assert [each for each in findings if each["verdict"] not in ("holds", "unchecked")] == []
        assert {each["verdict"] for each in findings} == {"holds", "unchecked"}
        assert [(each["cards"], each["reason"], each["simulated"]) for each in found["trainings"][sim.name]] == [
            (1, "", True),
            (2, "", True),
        ]
        assert found["advice"] == []
        assert not {"MASTER_ADDR", "MASTER_PORT"} & {each["name"] for each in found["environment"]}
        assert said.returncode == 0


def test_each_command_on_the_page_is_of_a_script_that_is_shown(sim: SimChip) -> None:
    commands = [command.partition(" python ")[2].split()[0] for command in sim.page.shown if " python " in command]

    assert commands
    assert set(commands) <= set(sim.page.scripts)


class TestKilledRank:
    """One of two ranks is killed: the other ends."""

    @pytest.fixture(autouse=True)
    def _no_card_is_held_any_more(self, sim: SimChip, server: Server) -> Iterator[None]:
        yield
        if sim.server is not None:
            assert [server.holder(card) for card in range(sim.cards)] == [None] * sim.cards

    def test_the_other_ends_and_names_it(self, sim: SimChip, start: Start, mode: dict[str, str]) -> None:
        job = start("killed_rank.py", sim.name, "1", **mode)

        status = job.end()  # which waits for all processes of the job

        # Where the first rank waits at its end for those that died, Lightning, which watches them, kills it.
        assert status in (1, -signal.SIGKILL), job.said
        told = re.search(r"^(\[rank0\]: )?rank 1 \(process \d+\) was killed by SIGKILL$", job.said, flags=re.M)
        assert told, job.said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python killed_rank.py {sim.name} 1", job.said)

    def test_where_the_first_is_killed_no_rank_outlives_it(self, sim: SimChip, start: Start) -> None:
        job = start("killed_rank.py", sim.name, "0")

        assert job.end() == -signal.SIGKILL


class TestEightRanks:
    """The chip's own ``train.py``, which says of each rank where it ran, on as many cards as there are."""

    def test_every_rank_holds_another_card(self, sim: SimChip, start: Start) -> None:
        said = start("train.py", f"devices={sim.cards}").succeed()

        held = re.findall(r"^rank (\d+): node 0, (.+)$", said, flags=re.M)
        everyone = list(range(sim.cards))
        assert [int(rank) for rank, _ in held] == everyone
        # A card, and by what other number the vendor knows it.
        for numbers in zip(*(re.findall(r"\d+", place) for _, place in held), strict=True):
            assert sorted(map(int, numbers)) == everyone
        assert sim.eight_ranks in said.splitlines()
        assert "the ranks hold 1 set of weights" in said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python train.py devices={sim.cards}", said)


class TestTwoNodes:
    """The chip's own ``train.py``, with two devices on each node."""

    def test_four_ranks_on_two_nodes_train_one_model(
        self, sim: SimChip, start: Start, nodes: tuple[Node, Node], documented: list[dict[str, str]]
    ) -> None:
        jobs = [
            start("train.py", "devices=2", "num_nodes=2", inside=node.inside, **environ)
            for node, environ in zip(nodes, documented, strict=True)
        ]

        succeed_together(jobs)

        assert tuple(re.findall(r"rank \d: node .+", jobs[0].said)) == sim.places
        assert "the ranks hold 1 set of weights" in jobs[0].said
        for node, job in enumerate(jobs):
            command = f"NODE_RANK={node} NORTHBRIDGE_SIMULATE={sim.name} python train.py devices=2 num_nodes=2"
            sim.page.assert_shown(command, job.said)


# Launchers are the core's concern: each of them with one of the chips.
SCRIPT = Path(__file__).parents[1] / "simulation" / "launchers.py"
PAGE = (Path(__file__).parents[3] / "docs/multi-node.md").read_text(encoding="utf-8").splitlines()
LAUNCHERS = {"hpu": ("PALS", "MVAPICH", "srun"), "sdaa": ("Open MPI", "PMIx", "Hydra in a job of SLURM")}

SHOWN = {
    name: [line for line in PAGE if line.startswith(f"{name}: ")] for names in LAUNCHERS.values() for name in names
}


class TestLaunchers:
    """A script that sets what each launcher sets, and nothing of MPI or SLURM besides."""

    def test_the_ranks_of_each_launcher_meet(
        self, sim: SimChip, start: Start, nodes: tuple[Node, Node], documented: list[dict[str, str]]
    ) -> None:
        addresses = [node.address for node in nodes]
        unset = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NODE_RANK")
        alike = [{name: text for name, text in each.items() if name not in unset} for each in documented]
        jobs = [
            start(SCRIPT, sim.name, str(index), *addresses, *LAUNCHERS[sim.name], inside=node.inside, **environ)
            for index, (node, environ) in enumerate(zip(nodes, alike, strict=True))
        ]

        succeed_together(jobs)

        for launcher in LAUNCHERS[sim.name]:
            lines = [line for job in jobs for line in job.said.splitlines() if line.startswith(f"{launcher}: ")]
            environment = "SLURMEnvironment" if launcher == "srun" else "MpiexecEnvironment"
            assert sorted(line.partition(f", {environment}, ")[0] for line in lines) == [
                f"{launcher}: rank {rank} of 4, node {rank // 2}, device {rank % 2}" for rank in range(4)
            ]
            assert not SHOWN[launcher] or all(line.partition(", weights")[0] in SHOWN[launcher] for line in lines)
            ends = {line.partition(f", {environment}, ")[2] for line in lines}
            assert len(ends) == 1  # one meeting point, and one set of weights
            assert re.match(rf"{addresses[0]}:(16|15)\d\d\d, weights [0-9a-f]+$", ends.pop())

        said = [line for job in jobs for line in job.said.splitlines() if line.startswith("HYBRID_SHARD: ")]
        assert sorted(said) == [
            f"HYBRID_SHARD: rank {rank} holds 33 of 66 in [[0, 1], [2, 3]]" for rank in range(4)
        ]  # and its weights are DDP's


class TestResume:
    """Two epochs, of which the first was another run's, equal two epochs in one go; what is saved opens anywhere."""

    @pytest.fixture(scope="class")
    @classmethod
    def before(cls, sim: SimChip, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A folder with the checkpoints of a first epoch, and ``whole/cpu.ckpt``: two epochs in one go on the CPU."""
        folder = tmp_path_factory.mktemp("before")
        clean = clean_environment(sim).items()
        environ = {name: value for name, value in clean if not tells_of_a_launcher(name)}
        for script, arguments, where in (
            ("resume.py", ["cpu", "1"], folder),
            ("resume.py", ["cpu", "2"], folder / "whole"),
            ("old_checkpoint.py", [sim.name], folder),
        ):
            where.mkdir(exist_ok=True)
            (where / script).write_text(sim.page.scripts[script])
            ran = run_forked(where / script, *arguments, folder=where, environ=environ)
            assert ran.status == 0, ran.said
        return folder

    @pytest.mark.parametrize("checkpoint", ["old", "tagged"])
    def test_it_goes_on_as_if_never_interrupted(
        self, sim: SimChip, start: Start, tmp_path: Path, before: Path, checkpoint: str, mode: dict[str, str]
    ) -> None:
        device = {"old": "cpu", "tagged": f"{sim.name}:0"}[checkpoint]
        assert _says_of_its_tensors(before / f"{checkpoint}.ckpt", device)
        (tmp_path / f"{checkpoint}.ckpt").symlink_to(before / f"{checkpoint}.ckpt")

        job = start("resume.py", sim.name, "2", f"{checkpoint}.ckpt", **mode)

        assert job.end() == 0, job.said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python resume.py {sim.name} 2 old.ckpt", job.said)
        saved = tmp_path / f"{sim.name}.ckpt"
        assert _says_of_its_tensors(saved, "cpu")
        assert not _says_of_its_tensors(saved, f"{sim.name}:0")
        ours = torch.load(saved, weights_only=False)
        whole = torch.load(before / "whole" / "cpu.ckpt", weights_only=False)
        assert (ours["epoch"], ours["global_step"]) == (whole["epoch"], whole["global_step"]) == (2, 8)
        _assert_equal(ours["state_dict"], whole["state_dict"])
        for mine, theirs in zip(ours["optimizer_states"], whole["optimizer_states"], strict=True):
            for number, state in theirs["state"].items():
                _assert_equal(mine["state"][number], state)


def _says_of_its_tensors(checkpoint: Path, device: str) -> bool:
    """Return whether a checkpoint says that tensors of it were on ``device``."""
    with zipfile.ZipFile(checkpoint) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/data.pkl"))
        return device.encode() in archive.read(name)


def _assert_equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []
