"""Distinct graphs of the steps of a model, found by the inputs of its modules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_MOST_EXPLAINED = 1000
"""Number of graphs whose module is looked for. The inputs of each are kept for that."""

_SHOWN = 4
"""Number of inputs of a module that a text shows."""

BATCH = "batch"


@dataclass
class SeenGraph:
    """A distinct graph: where and when it was first seen, and how often."""

    stage: str
    """``train`` or ``validate``; ``torch.compile`` if that compiled it."""

    first_step: int
    module: str
    """Name of the first module with a new input; ``batch`` if the batch itself was new."""

    inputs: str
    """Shapes and dtypes of that input."""

    steps: int = 1
    """Number of steps that ran it; 0 if unknown."""


@dataclass(frozen=True, eq=False)
class _Called:
    """Begin of a module's call in the record of a step. Hashed by identity, which is quicker than by name."""

    module: str


class DistinctGraphs:
    """Record the inputs of each module in each step, and tell which steps are new.

    A graph is one step: which modules are called, in which order, in which mode, and the shapes, dtypes, whole
    numbers, booleans and texts of their inputs, the batch first. Values of tensors and floating-point numbers are not
    part of it.
    """

    def __init__(self) -> None:
        self.graphs: dict[int, SeenGraph] = {}
        self._record: list[Any] = []
        self._seen_inputs: set[int] = set()
        self._handles: list[Any] = []

    def attach(self, model: torch.nn.Module) -> None:
        """Record the calls of all submodules of ``model`` from now on."""
        for name, module in model.named_modules():
            if name and not isinstance(module, torch.jit.ScriptModule):
                note = _noted(_Called(name), _Called(f"{name} (eval)"), self._record)
                self._handles.append(module.register_forward_pre_hook(note, with_kwargs=True))

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._record.clear()

    def begin_step(self, batch: Any) -> None:
        """Begin a step with its batch."""
        self._record.clear()
        self._record.append(_BATCH)
        _add(self._record.append, batch)

    def end_step(self, stage: str, step: int) -> SeenGraph | None:
        """End the step; return its graph if it is new."""
        record = tuple(self._record)
        self._record.clear()
        key = hash((stage, record))
        known = self.graphs.get(key)
        if known is not None:
            known.steps += 1
            return None
        graph = self.graphs[key] = SeenGraph(stage, step, *self._explain(stage, record))
        return graph

    def _explain(self, stage: str, record: tuple[Any, ...]) -> tuple[str, str]:
        """Return the first module with an input that no earlier step had, and the input."""
        if len(self.graphs) >= _MOST_EXPLAINED:
            return "?", f"not looked for after {_MOST_EXPLAINED} graphs"
        found: tuple[str, str] | None = None
        starts = [place for place, each in enumerate(record) if isinstance(each, _Called)]
        for start, end in zip(starts, [*starts[1:], len(record)], strict=True):
            key = hash((stage, *record[start:end]))
            if key not in self._seen_inputs and found is None:
                found = record[start].module, _text(record[start + 1 : end])
            self._seen_inputs.add(key)
        return found or ("all", "known inputs, but in another order")


_BATCH = _Called(BATCH)


def _noted(training: _Called, evaluating: _Called, record: list[Any]) -> Callable[..., None]:
    """Return a forward pre-hook that adds a call and its inputs to ``record``."""
    append, is_compiling = record.append, torch.compiler.is_compiling

    def note(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if is_compiling():
            return  # torch.compile leaves the hook out of its graph
        append(training if module.training else evaluating)
        for each in args:
            if type(each) is torch.Tensor and not each.is_nested:
                append(each.shape)
                append(each.dtype)
            else:
                _add(append, each)
        for name, each in kwargs.items():
            append(name)
            _add(append, each)

    return note


def _add(append: Callable[[Any], None], value: Any) -> None:
    if isinstance(value, torch.Tensor):
        append("nested" if value.is_nested else value.shape)
        append(value.dtype)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            append(str(key))
            _add(append, each)
    elif isinstance(value, (tuple, list)):
        append(len(value))
        for each in value:
            _add(append, each)
    elif value is None or isinstance(value, (bool, int, str)):
        append(repr(value))  # True is not 1, and hash(-1) is hash(-2)
    else:
        append(type(value).__qualname__)
        for each in getattr(value, "__dict__", {}).values():
            if isinstance(each, torch.Tensor):
                _add(append, each)


def _text(inputs: Sequence[Any]) -> str:
    """Return the shapes and dtypes in the record of one call."""
    shapes = [
        f"{tuple(shape) if isinstance(shape, torch.Size) else shape} {str(dtype).removeprefix('torch.')}"
        for shape, dtype in itertools.pairwise(inputs)
        if isinstance(dtype, torch.dtype)
    ]
    others = [each for each in inputs if isinstance(each, str) and each != "nested"] if not shapes else []
    shown = shapes or others or ["no tensor"]
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
