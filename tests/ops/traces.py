"""Operators and layers as torch.jit.trace and torch.export record them, run on other numbers than they were shown."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from tests.ops import layers, operators
from tests.ops.calls import SEED, compare_call
from tests.ops.entries import Outcome
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils import _pytree as pytree

MOST = 2
"""So many calls of an entry are traced, and of a layer in training one: what is recorded of one is of each."""

_NEW_ON_THE_CURRENT = "nn.CrossMapLRN2d"
"""It calls Tensor.new(), which torch.export records without the device's index: the record works on the current one."""

Call = Callable[..., Any]
Recorder = Callable[[nn.Module, tuple[Tensor, ...]], tuple[list[str], Call]]


class _OfTensors(nn.Module):
    """A call whose tensors are its only arguments, as what is recorded has to be."""

    def __init__(self, call: Call, arguments: Any) -> None:
        super().__init__()
        self._call = call
        leaves, self._shape = pytree.tree_flatten(arguments)
        self._leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._shape)
        return tuple(leaf for leaf in pytree.tree_leaves(self._call(*args, **kwargs)) if isinstance(leaf, Tensor))


def listed_traces(dtypes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and dtype of what is traced: each layer and each operator, in float32."""
    for name, dtype in (*layers.listed(dtypes), *operators.listed(dtypes)):
        if dtype == "float32":
            yield name, dtype


def listed_exports(dtypes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and dtype of what is exported: each layer, in float32."""
    for name, dtype in layers.listed(dtypes):
        if dtype == "float32" and name != _NEW_ON_THE_CURRENT:
            yield name, dtype


def run_trace(name: str, dtype: str) -> Outcome:
    """Compare what torch.jit.trace makes of the entry: its nodes, and its numbers and gradients for other input."""
    outcome = Outcome()
    if name in operators.names():
        for what, call, arguments, values in operators.calls(name, dtype, MOST):
            compare_call(outcome, what, _record(_trace, call), arguments, backward=True, values=values)
        return outcome
    for what, layer, arguments in _made(name, dtype, {True: 1, False: MOST}):
        compare_call(outcome, what, _record_layer(_trace, layer), arguments, backward=True)
    return outcome


def run_export(name: str, dtype: str) -> Outcome:
    """Compare what torch.export.export makes of the layer: its nodes, and its numbers for other input."""
    logging.disable(logging.ERROR)  # torch tells at length why it cannot export a layer
    outcome = Outcome()
    for what, layer, arguments in _made(name, dtype, {False: 1}):
        compare_call(outcome, what, _record_layer(_export, layer), arguments, backward=False)
    return outcome


def _made(name: str, dtype: str, counts: Mapping[bool, int]) -> Iterator[tuple[str, nn.Module, Any]]:
    for training, count in counts.items():
        for use in islice(layers.uses(name, getattr(torch, dtype), training), count):
            try:
                layer = use.make()
            except (RuntimeError, TypeError, ValueError):
                continue  # the CPU has no such layer
            if not isinstance(layer, LazyModuleMixin):  # which is another class after its first call
                args, kwargs = use.called
                yield use.what, layer, ((layer.state_dict(keep_vars=True), *args), kwargs)


def _record_layer(record: Recorder, layer: nn.Module) -> Call:
    def run(state: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        clone = copy.deepcopy(layer)
        clone.load_state_dict(state, assign=True)
        return _record(record, clone)(*args, **kwargs), list(clone.buffers())

    return run


def _record(record: Recorder, call: Call) -> Call:
    """Return what records ``call`` for what it is given, and runs the record on other numbers."""

    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        nodes, recorded = record(_OfTensors(call, (args, kwargs)), tuple(tensor.detach() for tensor in tensors))
        torch.manual_seed(SEED)
        return nodes, recorded(*map(_others_of, tensors))

    return run


def _others_of(tensor: Tensor) -> Tensor:
    """Return other numbers that can stand in the place of those of ``tensor``: probabilities stay probabilities."""
    return tensor.roll(1) * 0.9 if tensor.is_floating_point() and tensor.layout is torch.strided else tensor


def _trace(module: nn.Module, tensors: tuple[Tensor, ...]) -> tuple[list[str], Call]:
    trace: Any = torch.jit.trace  # untyped
    traced = trace(module, tensors, check_trace=False)
    return [node.kind() for node in traced.inlined_graph.nodes()], traced


def _export(module: nn.Module, tensors: tuple[Tensor, ...]) -> tuple[list[str], Call]:
    exported = torch.export.export(module, tensors)
    return [str(node.target) for node in exported.graph.nodes if node.op == "call_function"], exported.module()
