"""A callback that counts the distinct graphs of a training, and names the module and the shape that made each."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from northbridge.backend import Backend, reject_denied
from northbridge.errors import ArgumentsError
from northbridge.lightning.accelerators.accelerator import is_ours
from northbridge.lightning.callbacks import distinct_graphs
from northbridge.lightning.callbacks.distinct_graphs import BATCH, DistinctGraphs, SeenGraph

_LEAST_NEW = 4
_SHARE_NEW = 0.25
"""The number of graphs keeps growing if so many, and such a share of all, are new in the second half of the steps."""


class _RecompilationMonitorMixin:
    """Count the distinct graphs of a fit, each of which a chip with a graph compiler compiles.

    A graph is a step whose modules are called in the same order, with inputs of the same shapes, dtypes, whole numbers,
    booleans and texts. What ``torch.compile`` compiles and what the vendor's software counts is shown beside it. The
    progress bar shows ``graphs``. Loggers get ``recompilation/graphs`` and the other counts every ``log_every_n_steps``
    steps and at the end, when rank 0 prints a table of its graphs.

    Warns once if, after ``warn_after`` steps, the number of graphs keeps growing. Raises :class:`UnsupportedError` at
    the start of a fit on a chip that denies the claim ``recompilation``.
    """

    def __init__(self, warn_after: int = 64) -> None:
        if warn_after < 1:
            raise ArgumentsError(f"RecompilationMonitor(warn_after={warn_after}): not 1 or more")
        self.warn_after = warn_after
        self.graphs: list[SeenGraph] = []
        """Every graph of the last fit, in the order in which they were found."""

        self.rank_graphs: list[int] = []
        """The number of graphs on each rank, known at the end of a fit of several ranks."""

        self._backend: Backend | None = None
        self._steps: DistinctGraphs | None = None
        self._compiled: CompiledGraphs | None = None
        self._before: dict[str, float] = {}
        self._step = 0
        self._batches = 0
        self._found_at: list[int] = []  # the batches of training that had a new graph
        self._warned = False

    def counts(self) -> dict[str, float]:
        """Return the graphs of this rank's fit by name: ours, ``torch.compile``'s, and the vendor's own counts."""
        counts: dict[str, float] = {"graphs": self._number()}
        if self._compiled is not None and self._compiled.count:
            counts[STAGE] = self._compiled.count
        for name, total in self._vendor_counts().items():
            before = self._before.get(name, 0)
            counts[name] = total - before if total >= before else total  # the user has reset it
        return counts

    def table(self) -> str:
        """Return the table of the graphs found so far."""
        table = graph_table(self.graphs, {k: v for k, v in self.counts().items() if k != "graphs"}, self._batches)
        ranks = ", ".join(map(str, self.rank_graphs))
        return f"{table}\ngraphs of each rank: {ranks}" if len(self.rank_graphs) > 1 else table

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch."""
        backend: Backend | None = trainer.accelerator.backend if is_ours(trainer.accelerator) else None
        if backend is not None:
            what = f"RecompilationMonitor: {backend.name!r} has no graphs to count"
            reject_denied(backend, "recompilation", what, "leave it out")
        self._detach()
        self._backend, self._compiled, self._steps = backend, CompiledGraphs(), DistinctGraphs()
        self.graphs, self.rank_graphs, self._found_at, self._batches, self._warned = [], [], [], 0, False
        self._before = dict(self._vendor_counts())
        self._steps.attach(pl_module)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, *_: Any) -> None:
        """Begin a step."""
        self._begin_step(trainer, batch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """End a step: show a new graph, and log the counts."""
        self._batches += 1
        new = self._end_step("train")
        if new or batch_idx == 0:  # a new epoch empties the progress bar
            number = self._number()
            trainer.progress_bar_metrics["graphs"] = number
            # Not by self.log(): it puts a tensor on the chip, and would so change the graph of the step.
            trainer.callback_metrics["recompilation/graphs"] = torch.tensor(number)
        # A compiled model is compiled for a new shape only if torch.compile says so.
        costly = [graph for graph in new if (graph.stage == STAGE) == bool(self._compiled and self._compiled.count)]
        if costly:
            self._found_at.append(self._batches)
            self._warn(trainer, costly[-1])
        if trainer._logger_connector.should_update_logs:
            self._log(trainer)

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, batch: Any, *_: Any) -> None:
        """Begin a step of validation."""
        self._begin_step(trainer, batch)

    def on_validation_batch_end(self, trainer: Any, *_: Any) -> None:
        """End a step of validation."""
        self._end_step("validate")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the counts, and gather those of every rank."""
        self._log(trainer)
        if trainer.world_size > 1:
            mine = torch.tensor([self._number()], dtype=torch.int32, device=trainer.strategy.root_device)
            self.rank_graphs = trainer.strategy.all_gather(mine).flatten().tolist()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """End the watch, and print the table."""
        self._end(trainer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the watch; print the table if the user stopped the fit."""
        if isinstance(exception, KeyboardInterrupt):
            self._end(trainer)
        self._detach()

    def _end(self, trainer: Any) -> None:
        if self._steps is not None and trainer.is_global_zero:
            trainer.print(self.table())
        self._detach()

    def _detach(self) -> None:
        if self._steps is not None:
            self._steps.detach()
            self._steps = None

    def _begin_step(self, trainer: Any, batch: Any) -> None:
        self._step = trainer.global_step
        if self._steps is not None:
            self._steps.begin_step(batch)

    def _end_step(self, stage: str) -> list[SeenGraph]:
        """Return what is new in this step."""
        if self._steps is None or self._compiled is None:
            return []  # Trainer.validate() without a fit
        found = self._steps.end_step(stage, self._step)
        new = [*([found] if found else []), *self._compiled.new(self._step)]
        self.graphs += new
        return new

    def _log(self, trainer: Any) -> None:
        counts = {f"recompilation/{name}": number for name, number in self.counts().items()}
        for logger in trainer.loggers:
            logger.log_metrics(counts, step=trainer.fit_loop.epoch_loop._batches_that_stepped)

    def _number(self) -> int:
        return sum(graph.stage != STAGE for graph in self.graphs)

    def _vendor_counts(self) -> Mapping[str, float]:
        return {} if self._backend is None else self._backend.acceleration.compilations()

    def _warn(self, trainer: Any, latest: SeenGraph) -> None:
        late = sum(batch > self._batches / 2 for batch in self._found_at)
        grows = late >= max(_LEAST_NEW, _SHARE_NEW * len(self._found_at))
        if self._warned or self._batches < self.warn_after or not grows:
            return
        self._warned = True
        rank = f"rank {trainer.global_rank}: " if trainer.world_size > 1 else ""
        fix = (
            "pad the batches to few lengths, by northbridge.BucketBatchSampler and PaddingCollate"
            if latest.module == BATCH
            else f"give {latest.module!r} inputs of few shapes, such as a mask in place of selected rows"
        )
        warnings.warn(
            f"{rank}{len(self._found_at)} graphs in {self._batches} steps, and each new shape adds one: at step"
            f" {latest.first_step}, {latest.module!r} got {latest.inputs}. Fix: {fix}",
            stacklevel=2,
        )


STAGE = "torch.compile"


class CompiledGraphs:
    """Count what ``torch.compile`` compiles from now on. It costs one look into a table a step."""

    def __init__(self) -> None:
        self.count: int = 0
        """Number of compiled graphs."""

        self._counter = _counter()
        self._known = {*_compilations()}

    def new(self, step: int) -> list[SeenGraph]:
        """Return the compilations since the last call, each with its function and the reason that torch gives."""
        counter = _counter()
        if counter == self._counter:
            return []
        self.count += counter - self._counter if counter > self._counter else counter  # somebody has reset it
        self._counter = counter
        found = {key: each for key, each in _compilations().items() if key not in self._known}
        self._known |= found.keys()
        return [SeenGraph(STAGE, step, _place(each), _reason(each), steps=0) for each in found.values()]


def _counter() -> int:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")  # nothing is compiled before torch imports it
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


def _compilations() -> dict[tuple[Any, Any], Any]:
    """Return what torch compiled last, by number and start: after ``torch.compiler.reset()`` it numbers anew."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    found = [] if dynamo is None else dynamo.get_compilation_metrics()  # torch keeps the last 64
    ours = distinct_graphs.__file__  # the hooks of the watch
    return {
        (each.compile_id, each.start_time): each
        for each in found
        if each.co_name and each.co_filename != ours and getattr(each, "is_forward", True) is not False
    }


def _place(compilation: Any) -> str:
    file = Path(compilation.co_filename or "?").name
    return f"{compilation.co_name} ({file}:{compilation.co_firstlineno})"


def _reason(compilation: Any) -> str:
    reason = getattr(compilation, "recompile_reason", None)  # from torch 2.6 on
    return str(reason).splitlines()[0] if reason else "compiled for the first time"


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
