"""The layers of torch.nn: those of torch's database of modules, and those that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from tests.ops.calls import SEED, compare_call, evenly
from tests.ops.entries import Outcome
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
    for name in (*_by_name(), *USES):
        info = _by_name().get(name)
        for dtype in dtypes:
            if dtype in FLOATS or (info is not None and getattr(torch, dtype) in info.dtypes):
                yield name, dtype


def kinds() -> set[type[nn.Module]]:
    """Return the classes of which there are entries."""
    return {info.module_cls for info in module_db} | {getattr(nn, name[3:]) for name in USES}


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
    if name in USES:
        kind = getattr(nn, name[3:])
        for position, (made, called) in enumerate(USES[name]()):
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


# --- The layers that torch's database of modules lacks: what each is made with, and called with

Uses = list[tuple[tuple[Any, ...], tuple[Any, ...]]]

CONTAINERS = {
    *(nn.Module, nn.Container, nn.ModuleDict, nn.ModuleList, nn.ParameterDict, nn.ParameterList, nn.Sequential),
}
"""They compute nothing."""

NOT_LAYERS = {
    nn.RNNBase: "what LSTM, GRU and RNN have in common; it has no forward",
    nn.RNNCellBase: "what their cells have in common; it has no forward",
    nn.NLLLoss2d: "deprecated, another name of NLLLoss",
    nn.DataParallel: "scatters over devices by a function that torch has for CUDA alone",
    nn.SyncBatchNorm: "BatchNorm where there is one process; over ranks torch has kernels for GPUs alone",
}


def _pooled(pool: nn.Module, *size: int) -> tuple[Tensor, Tensor]:
    values, indices = pool(torch.randn(size))
    return values, indices


USES: dict[str, Callable[[], Uses]] = {
    "nn.AdaptiveLogSoftmaxWithLoss": lambda: [((16, 20, [5, 10]), (torch.randn(8, 16), torch.arange(8) * 2))],
    "nn.AlphaDropout": lambda: [((0.4,), (torch.randn(6, 5),))],
    "nn.ChannelShuffle": lambda: [((2,), (torch.randn(2, 4, 3, 3),))],
    "nn.CosineSimilarity": lambda: [((1,), (torch.randn(4, 6), torch.randn(4, 6)))],
    "nn.CrossMapLRN2d": lambda: [((3,), (torch.randn(2, 5, 4, 4),))],
    "nn.Dropout": lambda: [((0.4,), (torch.randn(6, 5),))],
    "nn.Dropout1d": lambda: [((0.4,), (torch.randn(6, 5, 4),))],
    "nn.Dropout2d": lambda: [((0.4,), (torch.randn(6, 5, 4, 3),))],
    "nn.Dropout3d": lambda: [((0.4,), (torch.randn(6, 5, 4, 3, 2),))],
    "nn.EmbeddingBag": lambda: [
        ((10, 4, None, 2.0, False, mode, sparse), (torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 4])))
        for mode, sparse in (("mean", False), ("sum", False), ("max", False), ("mean", True), ("sum", True))
    ],
    "nn.FeatureAlphaDropout": lambda: [((0.4,), (torch.randn(6, 5, 4, 3),))],
    "nn.Flatten": lambda: [((), (torch.randn(2, 3, 4),)), ((0, 1), (torch.randn(2, 3, 4).transpose(0, 1),))],
    "nn.Fold": lambda: [(((4, 5), (2, 2)), (torch.randn(2, 12, 12),))],
    "nn.Hardsigmoid": lambda: [((), (torch.randn(4, 5) * 4,))],
    "nn.Identity": lambda: [((), (torch.randn(4, 5),))],
    "nn.LazyBatchNorm1d": lambda: [((), (torch.randn(4, 5),))],
    "nn.LazyBatchNorm2d": lambda: [((), (torch.randn(4, 5, 3, 3),))],
    "nn.LazyBatchNorm3d": lambda: [((), (torch.randn(4, 5, 3, 3, 2),))],
    "nn.LazyInstanceNorm1d": lambda: [((), (torch.randn(4, 5, 6),))],
    "nn.LazyInstanceNorm2d": lambda: [((), (torch.randn(4, 5, 3, 3),))],
    "nn.LazyInstanceNorm3d": lambda: [((), (torch.randn(4, 5, 3, 3, 2),))],
    "nn.LazyLinear": lambda: [((3,), (torch.randn(4, 5),))],
    "nn.MaxUnpool1d": lambda: [((2,), _pooled(nn.MaxPool1d(2, return_indices=True), 2, 3, 8))],
    "nn.MaxUnpool2d": lambda: [((2,), _pooled(nn.MaxPool2d(2, return_indices=True), 2, 3, 8, 6))],
    "nn.MaxUnpool3d": lambda: [((2,), _pooled(nn.MaxPool3d(2, return_indices=True), 2, 3, 8, 6, 4))],
    "nn.PairwiseDistance": lambda: [((p,), (torch.randn(4, 6), torch.randn(4, 6))) for p in (1.0, 2.0, 3.0)],
    "nn.PixelShuffle": lambda: [((2,), (torch.randn(2, 8, 3, 3),))],
    "nn.PixelUnshuffle": lambda: [((2,), (torch.randn(2, 2, 6, 4),))],
    "nn.RReLU": lambda: [((), (torch.randn(6, 5),))],
    "nn.TransformerDecoder": lambda: [
        (
            (nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first), 2),
            (torch.randn(5, 2, 8), torch.randn(*((5, 4) if batch_first else (4, 2)), 8)),
        )
        for batch_first in (False, True)
    ],
    "nn.TripletMarginLoss": lambda: [
        ((1.0, 2.0, 1e-6, swap), tuple(torch.randn(4, 6) for _ in range(3))) for swap in (False, True)
    ],
    "nn.TripletMarginWithDistanceLoss": lambda: [((), tuple(torch.randn(4, 6) for _ in range(3)))],
    "nn.Unflatten": lambda: [((1, (2, 3)), (torch.randn(4, 6),))],
    "nn.Unfold": lambda: [(((2, 3), 1, 1, 2), (torch.randn(2, 3, 5, 7),))],
    "nn.Upsample": lambda: [
        ((None, 2.0, mode), (torch.randn(2, 3, *(5,) * dimensions),))
        for mode, dimensions in (("nearest", 1), ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))
    ],
    "nn.UpsamplingBilinear2d": lambda: [((None, 2), (torch.randn(2, 3, 5, 4),))],
    "nn.UpsamplingNearest2d": lambda: [((None, 2), (torch.randn(2, 3, 5, 4),))],
}
