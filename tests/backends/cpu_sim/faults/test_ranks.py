"""Faults that end, stop or mislead a process, and what the other ranks see of it."""

from __future__ import annotations

import os
import re
import signal
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import Ranks
from tests.scripts import start_python

VARIABLE = "NORTHBRIDGE_CPU_SIM_FAULTS"
PROGRAMS = Path(__file__).with_name("fault_rank_programs.py")
LIMIT_S = 120.0


def test_a_rank_is_killed_at_its_step_and_the_survivor_says_so(start_ranks: Callable[..., Ranks]) -> None:
    ranks = start_ranks("train", environ={VARIABLE: "kill rank=1 step=3"}, programs=PROGRAMS)

    survivor, killed = ranks.said(0), ranks.said(1)

    assert [ranks.status(0), ranks.status(1)] == [1, -signal.SIGKILL]
    assert re.search(
        r"^northbridge: planned fault: kill, at step 3, in [\w:]+, rank 1"
        r" \(kill rank=1 step=3, of NORTHBRIDGE_CPU_SIM_FAULTS\)$",
        killed,
        flags=re.M,
    )
    assert "planned" not in survivor
    assert "simccl's all_reduce on rank 0 of 2 failed" in survivor
    assert all("steps 3" in said and "steps 4" not in said for said in (survivor, killed))


def test_collectives_meet_faults_by_their_number_in_their_group(on_ranks: Callable[..., list[str]]) -> None:
    plan = "corrupt op=all_reduce seq=2 rank=1 value=-1; corrupt op=all_reduce seq=4 value=-4; slow seq=3 op=all_reduce"
    first, second = on_ranks("meet_collectives", environ={VARIABLE: f"{plan} seconds=0.01"}, programs=PROGRAMS)

    assert re.findall(r"^reduced (.*)$", first, flags=re.M) == ["[2.0, 2.0]", "[2.0, 2.0]", "[2.0, 2.0]"]
    assert re.findall(r"^reduced (.*)$", second, flags=re.M) == ["[2.0, 2.0]", "[-1.0, 2.0]", "[2.0, 2.0]"]
    for said in (first, second):
        assert "future [[-4.0, 2.0]]" in said
        assert "another group [2.0, 2.0]" in said
        assert "RuntimeError the simulated chip failed, in all_gather_into_tensor on cpu_sim:" in said
        assert "OutOfMemoryError cpu_sim:" in said
    assert (
        "northbridge: planned fault: corrupt, at step 0, in all_reduce (call 2 of its group), rank 1"
        " (corrupt rank=1 op=all_reduce seq=2 value=-1.0, of NORTHBRIDGE_CPU_SIM_FAULTS)\n"
    ) in second
    assert "('slow op=all_reduce seq=3 seconds=0.01', 1, 'all_reduce', 3)" in second


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_a_hung_process_can_be_ended(number: signal.Signals, ends: int) -> None:
    program = """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which the tests may run without, in the background
        import northbridge, torch
        northbridge.load("cpu_sim")
        x = torch.ones(2, device="cpu_sim")
        x + x
        print("not reached")
    """
    with start_python("-c", textwrap.dedent(program), environ={**os.environ, VARIABLE: "hang op=add"}) as hung:
        assert hung.stderr is not None
        line = next(line for line in hung.stderr if "planned fault" in line)
        hung.send_signal(number)
        try:
            said, error = hung.communicate(timeout=LIMIT_S)
        finally:
            hung.kill()

    assert line.startswith("northbridge: planned fault: hang, at step 0, in aten::add, rank 0 (hang op=aten::add, of")
    assert (hung.returncode, said) == (ends, "")
    assert ("KeyboardInterrupt" in error) is (number == signal.SIGINT)


def test_a_wrong_plan_ends_the_loading_of_the_chip(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        import northbridge
        try:
            northbridge.load("cpu_sim")
        except northbridge.SettingsError as error:
            print(error)
        """,
        load=False,
        **{VARIABLE: "kill step=soon"},
    )

    assert said == (
        "the fault 'kill step=soon' of NORTHBRIDGE_CPU_SIM_FAULTS cannot be planned:"
        " step='soon' is not a whole number from 0\n"
    )


def test_context_may_come_before_the_chip(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        import northbridge
        from northbridge_cpu_sim import Fault, faults_met, planned_faults
        with planned_faults(Fault("corrupt", op="add", value=5)):
            assert faults_met() == ()
            northbridge.load("cpu_sim")
            import torch
            x = torch.zeros(1, device="cpu_sim")
            print((x + 1).item(), (x * 1).item())
        print((x + 1).item(), (x * 1).item())
        """,
        load=False,
        **{VARIABLE: "corrupt op=mul value=7 after=1"},
    )

    assert said.splitlines() == ["5.0 0.0", "1.0 7.0"]


def test_a_trainer_meets_a_fault_at_its_step(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        import lightning.pytorch as pl
        from lightning.pytorch.demos.boring_classes import BoringModel
        trainer = pl.Trainer(
            accelerator="cpu_sim", devices=1, max_steps=6, logger=False, enable_checkpointing=False,
            enable_model_summary=False, enable_progress_bar=False,
        )
        try:
            trainer.fit(BoringModel())
        except RuntimeError as error:
            print(trainer.global_step, error)
        """,
        load=False,
        **{VARIABLE: "raise step=4 message='bus error'"},
    )

    assert re.search(r"^4 bus error, in [\w:]+ on cpu_sim:0: it was planned \(raise step=4 mess", said, flags=re.M)


def test_a_result_is_changed_after_its_conversion_back(on_flint: Callable[..., list[str]]) -> None:
    said = on_flint(
        """
        import torch.distributed as dist
        install(device)
        assert "int32" not in device.collective.reduces.natively
        dist.init_process_group(device.collective.name, store=dist.HashStore(), rank=0, world_size=1)
        x = torch.ones(2, dtype=torch.int32, device="flint")
        for _ in range(2):
            dist.all_reduce(x)
            print(x.tolist())
        """,
        **{VARIABLE: "corrupt op=all_reduce seq=2 value=7"},
    )

    assert said == ["[1, 1]", "[7, 1]"]
