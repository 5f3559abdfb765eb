"""The entries that are not the CPU's: refusals, and layers that draw random numbers; each with the reason."""

from __future__ import annotations

_COMPRESSED = "it takes sparse CSR tensors, and the chip computes with dense and sparse COO ones alone"

_DROPOUT = "it draws random numbers; off the CPU torch scales after the mask, which rounds otherwise in 16 bits"

RANDOM_LAYERS = {"nn.Dropout"}
"""The layers that may be listed, because they draw random numbers: they may differ by rounding alone."""

NOT_ON_THE_CPU = frozenset(
    f"nn.{layer} {dtype}"
    for layer in ("AvgPool3d", "CTCLoss", "LPPool3d", "MultiLabelMarginLoss", "MultiMarginLoss")
    for dtype in ("bfloat16", "float16")
)
"""The layers for which the CPU has no kernel of a dtype."""

EXCEPTIONS: dict[str, str] = {
    "nn.Dropout bfloat16": _DROPOUT,
    "nn.Dropout float16": _DROPOUT,
    "sparse.mm.reduce bfloat16": _COMPRESSED,
    "sparse.mm.reduce float16": _COMPRESSED,
    "sparse.mm.reduce float32": _COMPRESSED,
    "sparse.mm.reduce float32, traced": _COMPRESSED,
    "sparse.sampled_addmm complex64": _COMPRESSED,
    "sparse.sampled_addmm float32": _COMPRESSED,
    "sparse.sampled_addmm float32, traced": _COMPRESSED,
}

MOST = 0.02
"""So large a part of the entries that run on the CPU may be exceptions."""
