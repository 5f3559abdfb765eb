"""``torch.npu.NPUGraph``, over the simulated chip's recorder."""

from __future__ import annotations

import torch

from northbridge_npu.simulated.devices import _lazy_init


class NPUGraph:
    """Captured work of a stream."""

    def __init__(self) -> None:
        _lazy_init()
        self._graph = torch.accelerator.Graph()

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        """Begin to capture; ``pool`` and ``capture_error_mode`` make no difference here."""
        self._graph.capture_begin()

    def capture_end(self) -> None:
        """End the capture."""
        self._graph.capture_end()

    def replay(self) -> None:
        """Do the captured work again."""
        self._graph.replay()

    def reset(self) -> None:
        """Drop the captured work."""
        self._graph.reset()
