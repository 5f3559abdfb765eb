"""``python -m bench [--quick] [--only NAME …] [--go-on]``: measure, write ``bench/report.json``, and print a table.

What is measured is written at once, and ``--go-on`` measures what is missing. Where everything was measured, and not
quickly, ``docs/measured.md`` is written and its picture drawn too.

Exit codes: 0 every figure is within its bound; 1 one is over it; 2 wrong usage; 3 something could not be measured; 130
Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench import checkpoint, operation, ranks, start, step, strategy
from bench.bounds import BOUNDS
from bench.child import MeasurementError
from bench.figure import Figure, Measurement
from bench.options import OPTIONS
from bench.report import REPORT, Surroundings, as_dict, write
from bench.table import table

MEASUREMENTS: dict[str, Callable[..., Measurement]] = {
    # So many calls a round as take a few hundredths of a second.
    "op-add-4": partial(operation.measure_operation, "add-4", calls=20000),
    "op-add-million": partial(operation.measure_operation, "add-million", calls=200),
    "op-view": partial(operation.measure_operation, "view", calls=20000),
    "op-mm-64": partial(operation.measure_operation, "mm-64", calls=4000),
    "backward": partial(operation.measure_operation, "backward", calls=3000),
    # So many steps a fit as take about a second on two cores.
    "step-mlp": partial(step.measure_step, "mlp", steps=150),
    "step-convnet": partial(step.measure_step, "convnet", steps=40),
    "step-transformer": partial(step.measure_step, "transformer", steps=8),
    "step-captured": operation.measure_captured_step,
    "step-ddp": step.measure_ddp_step,
    "step-hpu": partial(step.measure_simulated_step, "hpu", devices=1),
    "step-hpu-ddp": partial(step.measure_simulated_step, "hpu", devices=2),
    "step-sdaa": partial(step.measure_simulated_step, "sdaa", devices=1),
    "step-sdaa-ddp": partial(step.measure_simulated_step, "sdaa", devices=2),
    **{
        f"{name}-{said}": partial(ranks.measure_collective, name, size=size, calls=calls)
        for name in ("all-reduce", "reduce-scatter", "all-gather")
        for said, size, calls in (("4kib", 2**12, 300), ("1mib", 2**20, 50), ("16mib", 2**24, 5))
    },
    "step-fsdp2": ranks.measure_sharded_step,
    "step-zero-2": ranks.measure_zero_step,
    "memory": step.measure_memory,
    "strategy": strategy.measure_strategy,
    "recompilation-watch": step.measure_recompilation_watch,
    "sync-dist": step.measure_logging,
    "checkpoint-save": partial(checkpoint.measure_checkpoint, "save_seconds"),
    "checkpoint-load": partial(checkpoint.measure_checkpoint, "load_seconds"),
    "checkpoint-memory": checkpoint.measure_checkpoint_memory,
    "step-16-mixed": partial(step.measure_mixed_step, "16-mixed"),
    "step-bf16-mixed": partial(step.measure_mixed_step, "bf16-mixed"),
    **{option.name: partial(ranks.measure_option, option) for option in OPTIONS},
    "step-one-parameter": partial(step.measure_step, "one-parameter", steps=400),
    "autoload": start.measure_autoload,
    "list": start.measure_list,
    "discovery": start.measure_discovery,
    "start": start.measure_start,
    "compile": lambda quick: start.measure_compile(),  # noqa: ARG005 - one round is the least and the most
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Northbridge costs.")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it runs, not what it measures")
    names = [bound.name for bound in BOUNDS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--go-on", action="store_true", help="keep what a run that was stopped has measured here")
    asked = parser.parse_args(arguments)

    said, console = Console(stderr=True), Console()
    surroundings = Surroundings.look()
    try:
        measured = _resume(surroundings, quick=asked.quick) if asked.go_on else {}
        figures = []
        for bound in BOUNDS:
            if bound.name not in measured and bound.name in (asked.only or names):
                said.print(f"measuring {bound.name}", highlight=False)
                measured[bound.name] = _measure(bound.name, quick=asked.quick)
            if bound.name in measured:
                figures.append(Figure(bound, measured[bound.name]))
                write(as_dict(figures, surroundings, quick=asked.quick))
    except _StoppedError as error:
        print(error, file=sys.stderr)
        return error.code
    console.print(table(figures, quick=asked.quick))
    console.print(f"written to {REPORT}", highlight=False, soft_wrap=True)
    if not asked.quick and len(figures) == len(BOUNDS):
        console.print(f"shown in {_show()}", highlight=False, soft_wrap=True)
    return exit_code(figures)


class _StoppedError(Exception):
    """The run ends here; the message says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _resume(surroundings: Surroundings, *, quick: bool) -> dict[str, Measurement]:
    from bench.recorded import ReportFileError, resume

    try:
        return resume(surroundings, quick=quick, file=REPORT)
    except ReportFileError as error:
        raise _StoppedError(2, f"python -m bench: {error}") from None


def _measure(name: str, *, quick: bool) -> Measurement:
    rest = "what was measured before is kept: make bench GO_ON=1 measures it and the rest"
    try:
        return MEASUREMENTS[name](quick=quick)
    except MeasurementError as error:
        raise _StoppedError(3, f"{name} could not be measured: {error}\n{rest}") from None
    except KeyboardInterrupt:
        raise _StoppedError(130, f"stopped at {name}; {rest}") from None


def _show() -> Path:
    # After the measuring: a child's memory begins with this process's.
    from bench.page import PAGE, show
    from bench.recorded import read

    show(read())
    return PAGE


def exit_code(figures: Sequence[Figure]) -> int:
    """Return 1 where a figure is over its bound."""
    return int(any(figure.verdict == "OVER" for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
