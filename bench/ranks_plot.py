"""The picture of what many ranks cost: ``docs/ranks.svg``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.child import ROOT
from bench.many_ranks import COUNTS, Cost

PICTURE = ROOT / "docs" / "ranks.svg"


def draw(costs: Mapping[str, Sequence[Cost]], file: Path = PICTURE) -> None:
    """Draw the CPU time of a rank's step over the number of ranks, a line for each accelerator."""
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "northbridge", "font.size": 9}):
        picture = Figure(figsize=(4.0, 3.0), layout="constrained")
        axes = picture.add_subplot()
        for accelerator, line in costs.items():
            cpu = [1e3 * each.cpu_seconds for each in line]
            axes.plot(COUNTS[: len(cpu)], cpu, marker="o", markersize=4, label=accelerator)
        axes.set_xscale("log", base=2)
        axes.set_xticks(COUNTS, [str(count) for count in COUNTS])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("ranks")
        axes.set_ylabel("CPU time of a rank in a step, ms")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        picture.savefig(file, format="svg", facecolor="#ffffff", metadata={"Date": None})
