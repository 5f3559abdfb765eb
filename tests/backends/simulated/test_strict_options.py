"""The strict options of a vendor's simulated chip show the same faults as those of ``cpu_sim``."""

from __future__ import annotations

import textwrap

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import OnRanks, Run

TOLD = """
def told(act):
    try:
        return act()
    except Exception as error:
        return type(error).__name__ + ": " + str(error).splitlines()[0]
"""


RANKS = f"""
{TOLD}
import os
rank, device = dist.get_rank(), os.environ["NORTHBRIDGE_SIMULATE"]
def ones(count=3):
    return torch.ones(count, device=device)
"""


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


class TestTheLibraryIsStrict:
    def test_what_is_not_waited_for_or_differs_shows(self, sim: SimChip, on_ranks: OnRanks) -> None:
        """A collective has not happened before its wait, and ranks that differ are told of each other's call."""
        program = f"""{RANKS}
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

        for said in on_ranks(program):
            *values, differs = said.splitlines()[-4:]
            assert values == [str([float("nan")] * 3), str([2.0] * 3), str([float("nan")] * 6)]
            assert "all_reduce of float32[3]" in differs
            assert "broadcast of float32[4]" in differs
