"""The graphs of a training."""

from __future__ import annotations

from northbridge.errors import UnsupportedError
from northbridge_conformance.rank_programs.recompilation import NEW, SIZES
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import TRAINERS, Runs, UsesSuite, one_and_two_devices


class Recompilation(UsesSuite):
    """RecompilationMonitor finds a graph for each shape on every rank, or is refused."""

    claims: tuple[str, ...] = ("recompilation",)
    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = "Claim `recompilation` as `no` if the chip compiles nothing: then the monitor is refused with your reason."

    def test_the_monitor_finds_one_graph_for_each_shape(self, chip: RunResult, devices: int) -> None:
        for found in chip.ranks("recompilation"):
            if found["refused"]:
                raise UnsupportedError(found["refused"], capability="recompilation")
            seen = [(graph["first_step"], graph["module"], graph["steps"]) for graph in found["graphs"]]
            assert seen == [(0, "batch", SIZES.count(4)), (NEW, "batch", SIZES.count(6))]
            assert found["ranks"] == ([2] * devices if devices > 1 else [])
