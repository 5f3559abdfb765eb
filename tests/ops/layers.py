"""The layers of torch.nn: those of torch's database of modules, and those that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from tests.ops import unlisted_layers
from tests.ops.calls import SEED, Outcome, compare_call, evenly
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

FLOATS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Use:
    """A layer made with some arguments and called with others."""

    what: str
    kind: type[nn.Module]
    made: tuple[tuple[Any, ...], dict[str, Any]]
    called: tuple[tuple[Any, ...], dict[str, Any]]
    dtype: torch.dtype
    training: bool

    def make(self) -> nn.Module:
        """Return the layer, on the CPU; the same each time."""
        torch.manual_seed(0)
        args, kwargs = self.made
        return self.kind(*args, **kwargs).to(self.dtype).train(self.training)

    def __call__(self, state: dict[str, Tensor], args: Any, kwargs: Any) -> Any:
        """Return what the layer of this state gives, and what it leaves in its buffers."""
        device = next((x.device for x in pytree.tree_leaves((state, args)) if isinstance(x, Tensor)), None)
        layer = self.make().to(device)
        torch.manual_seed(SEED)
        if isinstance(layer, LazyModuleMixin):
            return self._drawn_on_the_cpu(args).to(device)(*args, **kwargs)
        results = torch.func.functional_call(layer, state, args, kwargs)
        return results, {name: value for name, value in state.items() if not isinstance(value, nn.Parameter)}

    def _drawn_on_the_cpu(self, args: Any) -> nn.Module:
        # A lazy layer draws twice, and a second draw on the chip is not the CPU's second.
        layer: Any = self.make()
        layer.initialize_parameters(*pytree.tree_map_only(Tensor, lambda x: x.detach().cpu(), args))
        made: nn.Module = layer
        return made


def listed(dtypes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield name and dtype of each layer."""
    for name in (*_by_name(), *unlisted_layers.USES):
        info = _by_name().get(name)
        for dtype in dtypes:
            if dtype in FLOATS or (info is not None and getattr(torch, dtype) in info.dtypes):
                yield name, dtype


def kinds() -> set[type[nn.Module]]:
    """Return the classes of which there are entries."""
    return {info.module_cls for info in module_db} | {getattr(nn, name[3:]) for name in unlisted_layers.USES}


@cache
def _by_name() -> dict[str, Any]:
    return {info.name: info for info in module_db}


def run(name: str, dtype: str) -> Outcome:
    """Run the layer in training and in evaluation, forward and backward, and return what came of it."""
    outcome = Outcome()
    for training in (True, False):
        for use in uses(name, getattr(torch, dtype), training):
            try:
                state = use.make().state_dict(keep_vars=True)
            except (RuntimeError, TypeError, ValueError):
                continue  # the CPU has no such layer; of one without any, complaints_of_whole tells
            if any(torch.nn.parameter.is_lazy(value) for value in state.values()):
                state = {}  # the first call makes it
            compare_call(outcome, use.what, use, ((dict(state), *use.called), {}), backward=True)
    return outcome


def uses(name: str, dtype: torch.dtype, training: bool) -> Iterator[Use]:
    """Yield the ways in which the layer is made and called, as many as an entry of the database may have."""
    mode = "training" if training else "evaluation"
    torch.manual_seed(0)
    if name in unlisted_layers.USES:
        kind = getattr(nn, name[3:])
        for position, (made, called) in enumerate(unlisted_layers.USES[name]()):
            floating = pytree.tree_map_only(Tensor, lambda x: _as(x, dtype), called)
            yield Use(f"input {position}, {mode}", kind, (made, {}), (floating, {}), dtype, training)
        return
    info = _by_name()[name]
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=dtype.is_floating_point, training=training
    )
    for position, given in evenly(inputs):
        made, called = given.constructor_input, given.forward_input
        if called is not None:
            yield Use(
                f"input {position}{given.desc and ' ' + given.desc}, {mode}",
                info.module_cls,
                (made.args, made.kwargs),
                (called.args, called.kwargs),
                dtype,
                training,
            )


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype).requires_grad_() if tensor.is_floating_point() else tensor
