"""Capture of a function, forward in one graph and backward in another, after which every tensor is as before.

Some chips run the work that they capture, others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_unflatten

from northbridge.backend import Backend
from northbridge.errors import UnsupportedError
from northbridge.graphs.signature import addresses, copy_into, flatten, python_state, reject_changes, static_copies
from northbridge.snapshots.step import unrecorded

if TYPE_CHECKING:
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
    kept = [(each, each.detach().clone()) for each in tensors]
    random_state = device.random_state()
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
        device.set_random_state(random_state)


class CapturedCall:
    """The graphs of ``function`` for arguments such as ``arguments``, a tuple and a dict.

    A call copies its tensors into the static inputs, replays, and returns copies of the static outputs. ``module``
    holds the parameters that get gradients, None if there are none.
    """

    def __init__(
        self, backend: Backend, function: Callable[..., Any], module: torch.nn.Module | None, arguments: Any
    ) -> None:
        self.calls: int = 0
        """Number of forward replays, each of which overwrites the activations of the one before."""

        self.is_differentiable: list[bool] = []
        """For each tensor of the outputs, whether a gradient goes through it."""

        leaves, structure = flatten(arguments)
        self.input_count: int = sum(isinstance(each, torch.Tensor) for each in leaves)
        self._inputs = static_copies(leaves)
        self._parameters = [*module.parameters()] if module is not None else []
        self._buffers = [*module.buffers()] if module is not None else []
        args, kwargs = tree_unflatten(self._inputs, structure)
        self._backward: Any = None
        before = python_state(module) if module is not None else {}
        with unrecorded(), unchanged(backend.device, self._buffers), _uncached_autocast():
            versions = _versions(self._inputs)
            outputs = flatten(function(*args, **kwargs))[0]  # it may create tensors on first use
            if _versions(self._inputs) != versions:
                raise UnsupportedError(
                    "an argument is changed in place: a replay would change the graph's copy of it. Fix: change a copy",
                    capability="graphs",
                )
            self._reject_other_leaves(outputs)
            self._differentiate(outputs)
            self._forward = backend.acceleration.graph()
            with capturing(self._forward):
                results = function(*args, **kwargs)
            self._outputs, self._structure = flatten(results)
            if self._differentiable(self._outputs):
                self._backward = backend.acceleration.graph()
                with capturing(self._backward):
                    self._differentiate(self._outputs)
        if module is not None:
            reject_changes(before, python_state(module))
        self._outputs = [each.detach() if isinstance(each, torch.Tensor) else each for each in self._outputs]
        self._addresses = addresses((*self._parameters, *self._buffers))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Replay with the values of ``leaves``, which have the captured signature.

        Raises :class:`UnsupportedError` if a parameter or buffer has other memory than while it was captured.
        """
        if addresses((*self._parameters, *self._buffers)) != self._addresses:
            raise UnsupportedError(
                "a parameter or buffer has other memory than in the capture. Fix: move, convert and freeze the module"
                " before",
                capability="graphs",
            )
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        if self._backward is None:
            self.replay_forward(tensors)
            outputs: Sequence[Any] = self.copied_outputs()
        else:
            outputs = _Replay.apply(self, *tensors, *self._parameters)  # type: ignore[no-untyped-call]
        found = iter(outputs)
        whole = [next(found) if isinstance(each, torch.Tensor) else each for each in self._outputs]
        return tree_unflatten(whole, self._structure)

    def replay_forward(self, tensors: Sequence[torch.Tensor]) -> int:
        """Replay the forward graph with these inputs, and return its number."""
        copy_into([each for each in self._inputs if isinstance(each, torch.Tensor)], tensors)
        self._forward.replay()
        self.calls += 1
        return self.calls

    def copied_outputs(self) -> tuple[torch.Tensor, ...]:
        """Return copies of the static outputs, which the next replay overwrites."""
        return tuple(each.clone() for each in self._outputs if isinstance(each, torch.Tensor))

    def replay_backward(self, call: int, gradients: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        """Replay the backward graph of the call with this number; return a gradient of each input and parameter.

        Raises :class:`UnsupportedError` if a later call has overwritten its activations.
        """
        if call != self.calls:
            raise UnsupportedError(
                f"backward of call {call} after call {self.calls}: the graph keeps the activations of its last call"
                " alone. Fix: call backward before the next call, or use a graph of its own for each",
                capability="graphs",
            )
        chosen = [each for each, through in zip(gradients, self.is_differentiable, strict=True) if through]
        copy_into(self._gradients_out, chosen)
        self._backward.replay()
        found = iter(self._gradients_in)
        gradients_in = []
        for each in (*(each for each in self._inputs if isinstance(each, torch.Tensor)), *self._parameters):
            gradient = next(found) if each.requires_grad else None
            gradients_in.append(None if gradient is None else gradient.clone())
        return gradients_in

    def _differentiable(self, outputs: Sequence[Any]) -> list[torch.Tensor]:
        return [each for each in outputs if isinstance(each, torch.Tensor) and each.requires_grad]

    def _reject_other_leaves(self, outputs: Sequence[Any]) -> None:
        """Raise :class:`UnsupportedError` if a tensor gets a gradient that is neither an input nor of the module."""
        known = {id(each) for each in (*self._inputs, *self._parameters)}
        nodes, seen = [each.grad_fn for each in self._differentiable(outputs)], set()
        while nodes:
            node = nodes.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None and id(leaf) not in known:
                raise UnsupportedError(
                    f"a tensor of shape {tuple(leaf.shape)} would get no gradient: it is neither an argument nor a"
                    " parameter of a module that is graphed. Fix: graph the module or its method, or pass the tensor",
                    capability="graphs",
                )
            nodes += [following for following, _ in node.next_functions]

    def _differentiate(self, outputs: Sequence[Any]) -> None:
        self.is_differentiable = [each.requires_grad for each in outputs if isinstance(each, torch.Tensor)]
        through = self._differentiable(outputs)
        if not through:
            return
        if self._backward is None:
            self._gradients_out = [torch.zeros_like(each) for each in through]
        inputs = [each for each in self._inputs if isinstance(each, torch.Tensor)]
        wanted = [each for each in (*inputs, *self._parameters) if each.requires_grad]
        self._gradients_in = torch.autograd.grad(through, wanted, self._gradients_out, allow_unused=True)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, captured: CapturedCall, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.captured = captured
        ctx.call = captured.replay_forward(tensors[: captured.input_count])
        outputs = captured.copied_outputs()
        through = captured.is_differentiable
        ctx.mark_non_differentiable(*(each for each, kept in zip(outputs, through, strict=True) if not kept))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # decorated
        return None, *ctx.captured.replay_backward(ctx.call, grad_outputs)


def _versions(tensors: Sequence[Any]) -> list[int]:
    """Return how often each tensor has been changed in place, as torch counts it."""
    return [each._version for each in tensors if isinstance(each, torch.Tensor) and not each.is_inference()]


@contextmanager
def _uncached_autocast() -> Iterator[None]:
    """Let autocast cast weights inside of each graph: a cached cast would never follow the weights."""
    was = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was)
