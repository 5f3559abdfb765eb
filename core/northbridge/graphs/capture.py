"""One capture, after which every tensor is as before: some chips run the work that they capture, others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from northbridge.acceleration import Graph
    from northbridge.device import Device


class GraphWarning(UserWarning):
    """Work runs without a graph, because the bound on the number of graphs is reached."""


@contextmanager
def capturing(graph: Graph) -> Iterator[None]:
    """Capture the work of the block. If it raises an error, the graph is empty again, and the chip can be used."""
    graph.capture_begin()
    try:
        yield
    except BaseException:
        with suppress(RuntimeError):  # a chip may complain here about the capture that has failed already
            graph.capture_end()
        graph.reset()
        raise
    graph.capture_end()


@contextmanager
def unchanged(device: Device, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Give ``tensors`` and the device's generator their values back at the end of the block."""
    import torch

    kept = [(each, each.detach().clone()) for each in tensors]
    random_state = device.random_state()
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
        device.set_random_state(random_state)
