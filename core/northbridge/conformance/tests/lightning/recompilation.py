"""The graphs of a training, and the vendor's own counts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from northbridge.conformance.rank_programs.recompilation import NEW, SIZES
from northbridge.conformance.run import RunResult
from northbridge.conformance.suite import TRAINERS, Runs, UsesSuite, one_and_two_devices
from northbridge.errors import UnsupportedError


class Recompilation(UsesSuite):
    """A new shape is a new graph for RecompilationMonitor and for the vendor's counts; a known shape is not."""

    claims = ("recompilation",)
    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "Look at Acceleration.compilations(): it returns totals of the process, which grow when a graph is compiled, and"
        " never shrink. Claim `recompilation` as `no` if the chip compiles nothing."
    )

    def test_the_monitor_finds_one_graph_for_each_shape(self, chip: RunResult, devices: int) -> None:
        for found in _watched(chip):
            seen = [(graph["first_step"], graph["module"], graph["steps"]) for graph in found["graphs"]]
            assert seen == [(0, "batch", SIZES.count(4)), (NEW, "batch", SIZES.count(6))]
            assert found["ranks"] == ([2] * devices if devices > 1 else [])

    def test_a_count_of_the_vendors_grows_by_new_shapes_alone(self, chip: RunResult) -> None:
        for found in _watched(chip):
            counted = found["counted"]
            assert len(counted) == len(SIZES)
            assert [counts for counts in counted if counts.keys() != counted[0].keys()] == []
            shrunk = {name for before, after in pairwise(counted) for name in after if after[name] < before[name]}
            assert shrunk == set()
            assert not counted[0] or any(_follows_shapes(counted, name) for name in counted[0])


def _watched(chip: RunResult) -> list[Mapping[str, Any]]:
    ranks: list[Mapping[str, Any]] = chip.ranks("recompilation")
    for found in ranks:
        if found["refused"]:
            raise UnsupportedError(str(found["refused"]), capability="recompilation")
    return ranks


def _follows_shapes(counted: Sequence[Mapping[str, float]], name: str) -> bool:
    grown = [after[name] > before[name] for before, after in pairwise(counted)]
    return grown[NEW - 1] and not any(grown[NEW:])
