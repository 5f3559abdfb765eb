"""The vendor's switch for dynamic shapes, and its tools that look for them in a model and in a loader's batches."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.nn import Module
from torch.utils.data import DataLoader

from northbridge_hpu.simulated.markers import mark_step
from northbridge_hpu.simulated.metrics import metric_localcontext

Kind = TypeVar("Kind", bound=Module)

_COLUMNS = ("Step", "Recompiling modules", "New in", "New out", "Class", "Location", "Comment")
_COUNTS = ("Module name", "Recompile count")


def enable_dynamic_shape() -> None:
    """Let the card's compiler refine graphs for new shapes; the simulated card computes the same."""


def disable_dynamic_shape() -> None:
    """Make each new shape a graph of its own; the simulated card computes the same."""


def detect_recompilation_auto_model(
    model: Kind,
    mdlname: str = "Net",
    waittime: float = 1,  # noqa: ARG001 - the simulated card compiles nothing in the background
    csv_out: str = "out",
) -> Kind:
    """Watch each module's forward for new graphs, and add ``analyse_dynamicity()``, which reports what was found.

    It prints the report, and writes ``<csv_out>_1.csv`` with each recompilation and ``<csv_out>_2.csv`` with the number
    of each module. In lazy mode each forward is a graph of its own. Raises AssertionError in a process group.
    """
    watch = _Watch(csv_out)
    watch.add(model, mdlname)
    vars(model)["analyse_dynamicity"] = watch.report
    return model


def data_dynamicity(dl: Iterable[Any]) -> dict[object, int]:
    """Return the number of batches of each shape, and print them. Raises AssertionError in a process group."""
    _assert_alone()
    shapes = Counter(_shapes(batch) for batch in dl)
    _print(("Shape", "Count"), shapes.most_common())
    print(f"Number of unique shapes: {len(shapes)}")
    return dict(shapes)


def const_shape_dataloader(dl: Iterable[Any], maxlen: int) -> DataLoader[Any]:
    """Return a loader of at most ``maxlen`` batches of one shape: the first with so many, or else the most frequent.

    Nothing is padded: batches of other shapes are left out. Raises AssertionError without batches.
    """
    batches: dict[object, list[Any]] = {}
    for batch in dl:
        alike = batches.setdefault(_shapes(batch), [])
        if len(alike) == maxlen:
            return _loader(alike)
        alike.append(batch)
    assert batches, "the loader has no batches"
    return _loader(max(batches.values(), key=len))


@dataclass
class _Watch:
    csv_out: str
    step: int = -1
    found: list[tuple[int, str, bool, bool, str, str, str]] = field(default_factory=list)
    level: int = 0

    def add(self, module: Module, name: str) -> None:
        """Wrap the forward of ``module`` and of the modules in it, each once."""
        if "_recompilation_watch" in vars(module):
            return
        vars(module)["_recompilation_watch"] = self
        vars(module)["forward"] = self._watched(module, name, module.forward)
        for child, each in module.named_children():
            self.add(each, f"{name}/{child}")

    def _watched(self, module: Module, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        inputs: set[object] = set()
        outputs: set[object] = set()

        def watched(*args: Any, **kwargs: Any) -> Any:
            _assert_alone()
            self.step += self.level == 0
            self.level += 1
            mark_step()
            try:
                with metric_localcontext("graph_compilation") as metric:
                    result = forward(*args, **kwargs)
                    mark_step()
            finally:
                self.level -= 1
            is_new = _add(inputs, _shapes((args, kwargs))), _add(outputs, _shapes(result))
            if dict(metric.stats())["TotalNumber"]:
                self._note(module, name, *is_new)
            return result

        return watched

    def _note(self, module: Module, name: str, new_in: bool, new_out: bool) -> None:
        comment = "new input shape" if new_in else "known input shape, " + ("new" if new_out else "known") + " output"
        kind = type(module)
        file = getattr(inspect.getmodule(kind), "__file__", None) or "?"
        place = f"{kind.__module__}.{kind.__qualname__}"
        self.found.append((self.step, name, new_in, new_out, place, file, comment))

    def report(self) -> None:
        """Print what was found, and write the files."""
        counts = Counter(name for _, name, *_ in self.found).most_common()
        for number, columns, rows in ((1, _COLUMNS, sorted(self.found, key=lambda row: row[0])), (2, _COUNTS, counts)):
            _print(columns, rows)
            lines = [",".join(map(str, row)) for row in (columns, *rows)]
            Path(f"{self.csv_out}_{number}.csv").write_text("\n".join(lines) + "\n")


def _add(known: set[object], shapes: object) -> bool:
    is_new = shapes not in known
    known.add(shapes)
    return is_new


def _shapes(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, (list, tuple)):
        return tuple(map(_shapes, value))
    if isinstance(value, Mapping):
        return tuple((key, _shapes(each)) for key, each in value.items())
    return value if isinstance(value, (int, float, str, bytes, type(None))) else type(value)


def _loader(batches: Sequence[Any]) -> DataLoader[Any]:
    return DataLoader(list(batches), batch_size=None)  # type: ignore[arg-type]  # a list is a data set


def _print(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    for row in (columns, *rows):
        print(" | ".join(map(str, row)))


def _assert_alone() -> None:
    assert not torch.distributed.is_initialized(), "the tool works in one process without a process group"
