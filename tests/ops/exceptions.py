"""The entries that the chip refuses, each with the reason. What is not listed gives the CPU's result to the bit."""

from __future__ import annotations

_COMPRESSED = "it takes sparse CSR tensors, and the chip computes with dense and sparse COO ones alone"

EXCEPTIONS: dict[str, str] = {
    "sparse.mm.reduce bfloat16": _COMPRESSED,
    "sparse.mm.reduce float16": _COMPRESSED,
    "sparse.mm.reduce float32": _COMPRESSED,
    "sparse.sampled_addmm complex64": _COMPRESSED,
    "sparse.sampled_addmm float32": _COMPRESSED,
}

MOST = 0.02
"""So large a part of the entries that run on the CPU may be exceptions."""
