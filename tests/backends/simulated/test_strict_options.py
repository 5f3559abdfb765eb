"""The strict options of a vendor's simulated chip show the same faults as those of ``cpu_sim``."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import Begin, OnRanks, Run

TOLD = """
def told(act):
    try:
        return act()
    except Exception as error:
        return type(error).__name__ + ": " + str(error).splitlines()[0]
"""


def ranks_of(sim: SimChip) -> str:
    """Return how the programs of ranks begin."""
    return (
        TOLD
        + f"""
device = {sim.name!r}
import os
from datetime import timedelta
rank = dist.get_rank()
def ones(count=3):
    return torch.ones(count, device=device)
"""
    )


class TestTheCardIsStrict:
    def test_what_is_too_early_or_too_much_shows(self, sim: SimChip, run: Run) -> None:
        """A copy that is not waited for, fresh memory, a full card, and the use of a card after a fork."""
        said = run(
            TOLD
            + textwrap.dedent(f"""
            import os
            there = torch.ones(2, device="{sim.name}")
            here = there.to("cpu", non_blocking=True)
            print(here.tolist())
            torch.accelerator.synchronize()
            print(here.tolist())
            print(torch.empty(3, device="{sim.name}").tolist())
            before = torch.accelerator.memory_allocated()
            print(told(lambda: torch.empty(2**50, dtype=torch.int8, device="{sim.name}")))
            print(torch.accelerator.memory_allocated() == before, (there + 1).tolist(), flush=True)
            if os.fork() == 0:
                print(told(lambda: there + 1), flush=True)
                os._exit(0)
            os.wait()
            """)
        )

        *values, full, afterwards, forked = said.splitlines()[-6:]
        assert values == ["[nan, nan]", "[1.0, 1.0]", "[nan, nan, nan]"]
        assert full.startswith("OutOfMemoryError: ")
        assert afterwards == "True [2.0, 2.0]"
        assert "fork" in forked

    def test_data_error_comes_at_the_next_synchronization(self, sim: SimChip, run: Run) -> None:
        said = run(
            TOLD
            + textwrap.dedent(f"""
            table, beyond = torch.ones(2, 2, device="{sim.name}"), torch.tensor([5], device="{sim.name}")
            rows = torch.nn.functional.embedding(beyond, table)
            print(tuple(rows.shape), told(torch.accelerator.synchronize))
            """),
            NORTHBRIDGE_CPU_SIM_ERRORS="asynchronous",
        )

        shape, _, error = said.splitlines()[-1].partition(") ")
        assert shape == "(1, 2"
        assert f"{sim.name}:0" in error
        assert "index out of range" in error

    def test_who_touches_freed_memory_is_ended(self, sim: SimChip, begin: Begin) -> None:
        program = f"""
            import ctypes
            tensor = torch.ones(4, device="{sim.name}")
            address = tensor.data_ptr()
            del tensor
            print(ctypes.c_float.from_address(address).value)
        """
        ended = begin(program, sim.imports, False, NORTHBRIDGE_CPU_SIM_FREED="trap")()

        assert ended.status == -signal.SIGSEGV, ended.said


class TestTheLibraryIsStrict:
    def test_what_is_not_waited_for_or_differs_shows(self, sim: SimChip, on_ranks: OnRanks) -> None:
        """A collective has not happened before its wait, and ranks that differ are told of each other's call."""
        program = (
            ranks_of(sim)
            + """
x = ones()
work = dist.all_reduce(x, async_op=True)
print(x.tolist())
work.wait()
print(x.tolist())
everybodys = torch.zeros(6, device=device)
work = dist.all_gather_into_tensor(everybodys, x, async_op=True)
x.zero_()  # too early
work.wait()
print(everybodys.tolist())
print(told(lambda: dist.all_reduce(ones()) if rank else dist.broadcast(ones(4), 0)))
"""
        )

        for said in on_ranks(program):
            *values, differs = said.splitlines()[-4:]
            assert values == [str([float("nan")] * 3), str([2.0] * 3), str([float("nan")] * 6)]
            assert "all_reduce of float32[3]" in differs
            assert "broadcast of float32[4]" in differs

    def test_a_rank_that_ends_without_a_word_is_named_to_the_others(self, sim: SimChip, on_ranks: OnRanks) -> None:
        program = (
            ranks_of(sim)
            + """
dist.all_reduce(ones())
if rank == 1:
    os._exit(0)
print(told(lambda: dist.all_reduce(ones())), flush=True)
os._exit(0)
"""
        )

        first, _, third = on_ranks(program, size=3)

        for said in (first, third):
            assert f"{sim.collective}'s all_reduce" in said.splitlines()[-1]
            assert "rank 1 (process " in said.splitlines()[-1]
            assert "has ended" in said.splitlines()[-1]

    def test_the_flight_recorder_names_the_absent_rank(self, sim: SimChip, on_ranks: OnRanks, tmp_path: Path) -> None:
        program = (
            ranks_of(sim)
            + """
import time
dist.all_reduce(ones())
if rank == 0:
    late = dist.all_reduce(ones(), async_op=True)
    print(told(lambda: late.wait(timedelta(seconds=1))))
    open(os.environ["GIVEN_UP"], "w").close()
while not os.path.exists(os.environ["GIVEN_UP"]):
    time.sleep(0.05)
os._exit(0)
"""
        )
        folder = tmp_path / "flight"
        on_ranks(
            program,
            first=f"""
{sim.imports}
from northbridge.flight_recorder import arm
arm()
import torch.distributed as dist
dist.init_process_group({sim.collective!r})
""",
            NORTHBRIDGE_FLIGHT_RECORDER=str(folder),
            GIVEN_UP=str(tmp_path / "given up"),
        )

        hang = subprocess.run(
            [Path(sys.executable).with_name("northbridge"), "hang", folder], capture_output=True, text=True, check=False
        )
        assert "rank 1 of group 0 (default_pg, ranks 0, 1) has not called #2 all_reduce (float32 [3])" in " ".join(
            hang.stdout.split()
        ), hang


class TestStreams:
    def test_copy_on_another_stream_is_there_once_awaited(self, sim: SimChip, run: Run) -> None:
        said = run(
            f"""
            streams = torch.{sim.name}
            side, other = streams.Stream(), streams.Stream()
            with streams.stream(side):
                there = torch.ones(2).pin_memory().to("{sim.name}", non_blocking=True)
                event = side.record_event()
            other.wait_stream(side)
            print((there + 1).tolist(), event.query())
            streams.current_stream().wait_event(event)
            print((there + 1).tolist(), event.query())
            """
        )

        before = "[2.0, 2.0] True" if sim.ordered_streams else "[nan, nan] False"
        assert said.splitlines()[-2:] == [before, "[2.0, 2.0] True"]

    def test_memory_that_a_stream_was_not_told_of_is_lost_to_it(self, sim: SimChip, run: Run) -> None:
        said = run(
            f"""
            side = torch.{sim.name}.Stream()
            for is_told in (False, True):
                there = torch.ones(2, device="{sim.name}")
                with torch.{sim.name}.stream(side):
                    here = there.to("cpu", non_blocking=True)
                if is_told:
                    there.record_stream(side)
                del there
                side.synchronize()
                print(here.tolist())
            """,
            NORTHBRIDGE_CPU_SIM_FREED="",  # where it traps, the first copy ends in an error
        )

        lost = "[1.0, 1.0]" if sim.ordered_streams else "[nan, nan]"
        assert said.splitlines()[-2:] == [lost, "[1.0, 1.0]"]
