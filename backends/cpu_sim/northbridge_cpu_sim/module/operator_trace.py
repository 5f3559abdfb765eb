"""Distinct graphs that have run on the chip: the simulated chip's count of what a real one would compile.

A graph is the sequence of operators between two markers, or one operator where the vendor's software has no markers:
their names, and the shapes, dtypes, whole numbers, booleans and texts of their inputs. A floating-point number, such as
a learning rate, is an input. The simulated chip compiles nothing: it counts the graphs that it has not run before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from northbridge_cpu_sim.module import chip


def trace_operators(*, between_markers: bool = False, on_new: Callable[[], None] | None = None) -> None:
    """Trace the operators of this process from now on; call ``on_new`` after the first run of each graph."""
    chip.extension().trace_operators(between_markers, on_new)


def mark_graph() -> None:
    """End the graph of the operators since the last marker; without operators there is none."""
    chip.extension().mark_graph()


def graph_runs() -> Mapping[int, int]:
    """Return how often each graph has run, by its hash. The open graph counts from its marker on."""
    runs: Mapping[int, int] = chip.extension().graph_runs()
    return runs
