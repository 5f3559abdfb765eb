"""The layers of torch.nn that torch's database of modules lacks: what each is made with, and called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Uses = list[tuple[tuple[Any, ...], tuple[Any, ...]]]

CONTAINERS = {
    nn.Module,
    nn.Container,
    nn.ModuleDict,
    nn.ModuleList,
    nn.ParameterDict,
    nn.ParameterList,
    nn.Sequential,
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
