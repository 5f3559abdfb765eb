"""The table of the graphs of a fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from northbridge.lightning.callbacks.distinct_graphs import SeenGraph

_ROWS = 20
_COLUMNS = ("stage", "first step", "steps", "module", "inputs")
_NUMBERS = (1, 2)
"""The columns that are aligned to the right."""


def graph_table(graphs: Sequence[SeenGraph], counts: Mapping[str, float], steps: int) -> str:
    """Return the first graphs as a table, below the number of each stage and above the other ``counts``."""
    stages = Counter(graph.stage for graph in graphs)
    found = ", ".join(f"{stage} {number}" for stage, number in sorted(stages.items()))
    lines = [f"RecompilationMonitor: {steps} steps of training; graphs: {found or 'none'}"]
    cells = [_COLUMNS, *(_row(graph) for graph in graphs[:_ROWS])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells if graphs else []:
        aligned = [
            cell.rjust(width) if place in _NUMBERS else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    if len(graphs) > _ROWS:
        lines.append(f"… and {len(graphs) - _ROWS} more, the last at step {graphs[-1].first_step}")
    lines += [f"{name}: {number:g}" for name, number in counts.items()]
    return "\n".join(lines)


def _row(graph: SeenGraph) -> tuple[str, ...]:
    return graph.stage, str(graph.first_step), str(graph.steps or ""), graph.module, graph.inputs
