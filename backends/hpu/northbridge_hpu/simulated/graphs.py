"""The graphs of lazy mode, over the simulated chip's recorder, and the vendor's wrappers of modules and functions."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any, Literal

import torch

import northbridge
from northbridge_hpu.simulated.devices import _lazy_init, synchronize
from northbridge_hpu.simulated.streams import Stream, stream as on_stream

_capturing: list[HPUGraph] = []


class HPUGraph:
    """Captured work."""

    def __init__(self) -> None:
        _lazy_init()
        self._graph = torch.accelerator.Graph()
        self._captured = False

    def capture_begin(self, dry_run: bool = False) -> None:
        """Begin to capture. Raises NotImplementedError for a dry run: the simulated Gaudi runs what it captures."""
        _reject(dry_run)
        self._graph.capture_begin()
        _capturing.append(self)

    def capture_end(self) -> None:
        """End the capture."""
        _capturing.clear()
        self._graph.capture_end()
        self._captured = True

    def replay(self, asynchronous: bool = False) -> None:
        """Do the captured work again; before a capture, nothing."""
        if self._captured:
            self._graph.replay()

    def reset(self) -> None:
        """Drop the captured work."""
        if self in _capturing:
            _capturing.clear()
        self._graph.reset()
        self._captured = False


class graph:
    """Capture the work of a block in ``hpu_graph``, on a stream of its own."""

    def __init__(self, hpu_graph: HPUGraph, stream: Stream | None = None, dry_run: bool = False) -> None:
        self._graph = hpu_graph
        self._stream = stream
        self._dry_run = dry_run

    def __enter__(self) -> None:
        synchronize()
        self._on_stream: Any = on_stream(self._stream if self._stream is not None else Stream())
        self._on_stream.__enter__()
        try:
            self._graph.capture_begin(self._dry_run)
        except BaseException:
            self._on_stream.__exit__(None, None, None)
            raise

    def __exit__(self, *raised: Any) -> None:
        try:
            self._graph.capture_end()
        finally:
            self._on_stream.__exit__(*raised)


def is_current_stream_capturing() -> bool:
    """Return True between the beginning and the end of a capture."""
    return bool(_capturing)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    warmups: int = 0,  # noqa: ARG001 - each capture here has a warm-up
    allow_unused_input: bool = False,  # noqa: ARG001 - unused inputs get no gradient
    asynchronous: bool = False,  # noqa: ARG001 - the simulated card has done its work at the return
    disable_tensor_cache: bool = False,  # noqa: ARG001 - outputs are copies
    dry_run: bool = False,
) -> Any:
    """Capture each callable for its sample, and return it; a module is changed in place."""
    _reject(dry_run)
    several = isinstance(callables, tuple)
    pairs = zip(callables, sample_args, strict=True) if several else [(callables, sample_args)]
    made: list[Any] = []
    for function, sample in pairs:
        assert all(isinstance(each, torch.Tensor) for each in sample), "sample_args must be tensors"
        if isinstance(function, torch.nn.Module):
            _graph_forward(function, 1, "error", only_training=function.training)
            function(*sample)
            made.append(function)
        else:
            graphed = _graphed(function, 1, "error")
            graphed(*sample)
            made.append(graphed)
    return tuple(made) if several else made[0]


def wrap_in_hpu_graph(
    module: Any,
    asynchronous: bool = False,  # noqa: ARG001
    disable_tensor_cache: bool = False,  # noqa: ARG001
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> Any:
    """Give ``module`` a forward that is captured for each signature, and methods that drop the graphs."""
    _reject(dry_run)
    graphed = _graph_forward(module, max_graphs or sys.maxsize, "warn")
    module.clear_cache = graphed.reset
    module.clear_inputs = lambda: None  # a graph's inputs are copies
    return module


class ModuleCacher:
    """Gives modules a forward that is captured for each signature, while they train."""

    def __init__(self, max_graphs: int = 10) -> None:
        self.max_graphs = max_graphs

    def __call__(
        self,
        model: torch.nn.Module,
        use_lfu: bool = False,
        inplace: bool = True,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        have_grad_accumulation: bool = False,
        log_frequency: int = 100,
        verbose: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
    ) -> torch.nn.Module:
        """Return ``model``, or with ``inplace=False`` a copy of it."""
        _reject(dry_run)
        parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
        assert not isinstance(model, parallel), "ModuleCacher comes before (Distributed)DataParallel"
        model = model if inplace else copy.deepcopy(model)
        _graph_forward(model, self.max_graphs, "warn", only_training=True)
        return model


def _reject(dry_run: bool) -> None:
    if dry_run:
        raise NotImplementedError("the simulated Gaudi knows no dry run. Fix: leave dry_run out")


def _graphed(
    function: Callable[..., Any], max_graphs: int, beyond: Literal["warn", "error"]
) -> northbridge.GraphedCallable:
    return northbridge.GraphedCallable(function, max_graphs=max_graphs, beyond=beyond, backend=northbridge.get("hpu"))


def _graph_forward(
    module: Any, max_graphs: int, beyond: Literal["warn", "error"], *, only_training: bool | None = None
) -> northbridge.GraphedCallable:
    """Replace ``module.forward``; if ``only_training`` is set, graphs are used in this mode alone."""
    forward = module.forward
    graphed = _graphed(forward, max_graphs, beyond)

    def graphed_forward(
        *args: Any,
        bypass_hpu_graphs: bool = False,
        warmup_mode: bool = False,
        cache_tensors_list: Any = None,  # noqa: ARG001
        **kwargs: Any,
    ) -> Any:
        other_mode = only_training is not None and module.training != only_training
        if bypass_hpu_graphs or warmup_mode or other_mode or (only_training and not torch.is_grad_enabled()):
            return forward(*args, **kwargs)
        return graphed(*args, **kwargs)

    module.forward = graphed_forward
    return graphed
