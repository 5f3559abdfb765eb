"""Graphs of lazy mode, over the simulated chip's recorder. Work runs while it is captured, as on the card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from northbridge_hpu.simulated.devices import _lazy_init, synchronize
from northbridge_hpu.simulated.streams import Stream, stream as on_stream

_capturing: list[HPUGraph] = []


class HPUGraph:
    """Captured work. Its inputs and outputs keep their memory."""

    def __init__(self) -> None:
        _lazy_init()
        self._graph = torch.accelerator.Graph()
        self._inputs: list[torch.Tensor] = []
        self._outputs: list[torch.Tensor] = []
        self._captured = False

    def capture_begin(self, dry_run: bool = False) -> None:
        """Begin to capture. Raises NotImplementedError for a dry run: the simulated Gaudi runs what it captures."""
        if dry_run:
            raise NotImplementedError("the simulated Gaudi knows no dry run. Fix: leave dry_run out")
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

    def replayV2(
        self, static_tlist: Sequence[torch.Tensor], tlist: Sequence[torch.Tensor], asynchronous: bool = False
    ) -> None:
        """Copy each tensor of ``tlist`` into its place in ``static_tlist``, and replay."""
        with torch.no_grad():
            for static, tensor in zip(static_tlist, tlist, strict=True):
                static.copy_(tensor)
        self.replay(asynchronous)

    def replayV3(self, tlistI: Sequence[torch.Tensor], asynchronous: bool = False) -> None:
        """Copy each tensor into its place among the marked inputs, and replay."""
        self.replayV2(self._inputs, tlistI, asynchronous)

    def mark_user_inputs(self, inputs: Sequence[torch.Tensor]) -> None:
        """Note the static inputs for ``replayV3``."""
        self._inputs = list(inputs)

    def mark_user_outputs(self, outputs: Sequence[torch.Tensor]) -> None:
        """Note the static outputs, which stay alive with the graph."""
        self._outputs = list(outputs)

    def clear_inputs(self) -> None:
        """Forget the marked inputs."""
        self._inputs.clear()

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
