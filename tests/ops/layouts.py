"""Layers of torch.nn on a chip: every memory layout, second derivatives, and evaluation without gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tests.ops import layers
from tests.ops.calls import SEED, Carrier, difference
from torch import Tensor
from torch.utils import _pytree as pytree

Layout = Callable[[Tensor], Tensor]

SHORTCUTS = ("MultiheadAttention", "Transformer")
"""Prefixes of the layers with a fast path without gradients, which torch has for the CPU, CUDA and PrivateUse1."""

WITHOUT_SECOND = {"GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNCell"}
"""Layers that consist of single operators in a second derivative, and add up in another order there."""


def channels_last(x: Tensor) -> Tensor:
    """Return images, or volumes, as convolutions like them; anything else as it is."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[x.dim()]) if x.dim() in formats else x.contiguous()


LAYOUTS: dict[str, Layout] = {
    "contiguous": torch.Tensor.contiguous,
    "channels-last": channels_last,
    "transposed": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x,
    "expanded": lambda x: x[:1].expand(x.shape) if x.dim() else x,
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
}


@dataclass(frozen=True)
class Case:
    """One use of a layer, the layout of what it is given, and that of the gradient of what it gives."""

    name: str
    use: layers.Use
    layout: str
    of_gradient: str

    def __str__(self) -> str:
        return f"{self.name}, {self.use.what}, {self.layout}, gradient {self.of_gradient}"

    def run(self, device: str) -> dict[str, Any]:
        """Return the results, the gradients and the second derivatives on ``device``, or what was raised."""
        state = self.use.make().state_dict(keep_vars=True)
        carrier = Carrier(device)
        state, args, kwargs = carrier.carry((dict(state), *lay_out(self.use.called, LAYOUTS[self.layout])))
        torch.manual_seed(SEED)
        try:
            results = self.use(state, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            return {"error": type(error).__name__}
        outputs, inputs = _learning(results), [x for x in _learning((state, args, kwargs)) if x.is_leaf]
        found = {"output": results}
        if not outputs or not inputs:
            return found
        draw = partial(self._draw, carrier, torch.Generator().manual_seed(SEED))
        seeds = [draw(x).requires_grad_() for x in outputs]
        try:
            found["gradient"] = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True, retain_graph=True)
        except RuntimeError as error:  # the CPU has kernels that take no such gradient
            return {**found, "gradient": type(error).__name__}
        if self.name.removeprefix("nn.") not in WITHOUT_SECOND:
            found |= self._second(outputs, inputs, seeds, draw)
        return found

    def evaluate(self, device: str) -> dict[str, Any]:
        """Return the results without gradients on ``device``, where torch may take other kernels than with them."""
        with_shortcuts = ("cpu", torch._C._get_privateuse1_backend_name())
        if self.name.removeprefix("nn.").startswith(SHORTCUTS) and torch.device(device).type not in with_shortcuts:
            return {}
        state = self.use.make().state_dict(keep_vars=True)
        state, args, kwargs = Carrier(device).carry((dict(state), *lay_out(self.use.called, LAYOUTS[self.layout])))
        found: dict[str, Any] = {}
        for mode in (torch.no_grad, torch.inference_mode):
            try:
                with mode():
                    results = self.use(state, args, kwargs)
                if self.name == "nn.MaxPool1d":  # the CPU has a kernel for this case alone, with strides of its own
                    renew = partial(torch.clone, memory_format=torch.contiguous_format)  # in dimensions of 1 too
                    results = pytree.tree_map_only(Tensor, renew, results)
                found[mode.__name__] = results
            except (RuntimeError, NotImplementedError) as error:
                found[mode.__name__] = type(error).__name__
        return found

    def _second(
        self, outputs: list[Tensor], inputs: list[Tensor], seeds: list[Tensor], draw: Callable[[Tensor], Tensor]
    ) -> dict[str, Any]:
        try:
            first = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True, create_graph=True)
            again = [x for x in _learning(first) if x.layout is torch.strided]
            second = torch.autograd.grad(again, [*inputs, *seeds], [draw(x) for x in again], allow_unused=True)
        except (RuntimeError, NotImplementedError) as error:  # there is none, on the CPU either
            return {"second derivative": type(error).__name__}
        return {"gradient with a graph": first, "second derivative": second}

    def _draw(self, carrier: Carrier, generator: torch.Generator, like: Tensor) -> Tensor:
        drawn = torch.randn(like.shape, generator=generator, dtype=like.dtype)
        carried: Tensor = carrier.carry(LAYOUTS[self.of_gradient](drawn))
        return carried


def lay_out(tree: Any, layout: Layout) -> Any:
    """Return ``tree`` with its numbers in another layout, the same tensor wherever one stood twice."""
    laid: dict[int, Tensor] = {}

    def lay(x: Tensor) -> Tensor:
        if not x.is_floating_point() or isinstance(x, torch.nn.Parameter):
            return x
        if id(x) not in laid:
            laid[id(x)] = layout(x.detach()).detach().requires_grad_(x.requires_grad)
        return laid[id(x)]

    return pytree.tree_map_only(Tensor, lay, tree)


def cases() -> Iterator[Case]:
    """Yield, for each layer and each number of dimensions that it takes, each layout that makes a difference.

    The gradient of what the layer gives is laid out alike; to channels-last inputs it comes contiguous, too, as a loss
    often gives it.
    """
    for name, _ in layers.listed(["float32"]):
        for training in (True, False):
            taken = set()
            for use in layers.uses(name, torch.float32, training):
                dimensions = tuple(x.dim() for x in _tensors(use.called))
                if dimensions in taken or not _can_be_made(use):
                    continue
                taken.add(dimensions)
                strides = set()
                for layout in LAYOUTS if training else ("channels-last",):
                    strides_so = tuple(x.stride() for x in _tensors(lay_out(use.called, LAYOUTS[layout])))
                    if strides_so in strides:
                        continue
                    strides.add(strides_so)
                    yield Case(name, use, layout, layout)
                    if layout == "channels-last":
                        yield Case(name, use, layout, "contiguous")


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, Tensor)]


def _can_be_made(use: layers.Use) -> bool:
    try:
        state = use.make().state_dict(keep_vars=True)
    except (RuntimeError, TypeError, ValueError):
        return False
    return not any(torch.nn.parameter.is_lazy(value) for value in state.values())


def _learning(tree: Any) -> list[Tensor]:
    return [x for x in _tensors(tree) if x.requires_grad]


def compare(device: str) -> dict[str, Any]:
    """Return how many results were compared, of which kind, and what differs on ``device``."""
    counts: dict[str, int] = {}
    differences = []
    for case in cases():
        expected, found = case.run("cpu"), case.run(device)
        if expected.keys() != found.keys():
            differences.append(f"{case}: has {sorted(found)} and not {sorted(expected)}")
        if evaluated := case.evaluate(device):
            expected, found = expected | case.evaluate("cpu"), found | evaluated
        for what in expected.keys() & found.keys():
            counts[what] = counts.get(what, 0) + 1
            said = difference(expected[what], found[what], device)
            if said is not None:
                differences.append(f"{case}, {what}: {said}")
    return {"counts": counts, "differences": differences}
