"""The entries that are not the CPU's, with the reason: refusals, layers that draw random numbers, and the rest.

What is wrong with outcomes is told without these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.ops.entries import Outcome
from tests.ops.pool import Finished

_COMPRESSED = "it takes sparse CSR tensors, and the chip computes with dense and sparse COO ones alone"

_DROPOUT = "it draws random numbers; off the CPU torch scales after the mask, which rounds otherwise in 16 bits"

_UNSTEPPED = "up to torch 2.13 the CPU leaves most weights of 16 bits unchanged, and the chip refuses them"

RANDOM_LAYERS = {"nn.Dropout"}
"""The layers that may be listed, because they draw random numbers: they may differ by rounding alone."""

NOT_ON_THE_CPU = frozenset(
    f"nn.{layer} {dtype}"
    for layer in ("AvgPool3d", "CTCLoss", "LPPool3d", "MultiLabelMarginLoss", "MultiMarginLoss")
    for dtype in ("bfloat16", "float16")
)
"""The layers for which the CPU has no kernel of a dtype."""

_ON_THE_CPU = "it takes or gives tensors of the CPU on every device"

_PINNED = "memory of the CPU alone can be pinned"

_DIVIDES = "after a call with a wrong shape it divides by zero, on the CPU too"

_TRUSTS = "it does not check its strides or padding, and reads beyond them"

_BATCHED = "its results belong to a transform of torch.func, and cannot be read"

NOT_CALLED: dict[str, str] = {
    "aten::_add_batch_dim": _BATCHED,
    "aten::_nnpack_spatial_convolution": _DIVIDES,
    "aten::_nnpack_spatial_convolution.out": _DIVIDES,
    "aten::_pack_padded_sequence.out": _ON_THE_CPU,
    "aten::_pin_memory": _PINNED,
    "aten::_pin_memory.out": _PINNED,
    "aten::_remove_batch_dim": _BATCHED,
    "aten::_reshape_alias": _TRUSTS,
    "aten::_reshape_alias_copy": _TRUSTS,
    "aten::_reshape_alias_copy.out": _TRUSTS,
    "aten::_shape_as_tensor": _ON_THE_CPU,
    "aten::_test_ambiguous_defaults.a": _ON_THE_CPU,
    "aten::_test_ambiguous_defaults.b": _ON_THE_CPU,
    "aten::_to_cpu": _ON_THE_CPU,
    "aten::choose_qparams_optimized": _ON_THE_CPU,
    "aten::fbgemm_pack_gemm_matrix_fp16": _ON_THE_CPU,
    "aten::from_file": "it makes files",
    "aten::from_file.out": "it makes files",
    "aten::get_device": "it tells the device's index",
    "aten::pin_memory": _PINNED,
    "aten::randint_like.Tensor": _ON_THE_CPU,
    "aten::randint_like.Tensor_generator": _ON_THE_CPU,
    "aten::randint_like.Tensor_generator_out": _ON_THE_CPU,
    "aten::randint_like.Tensor_out": _ON_THE_CPU,
    "aten::record_stream": "the CPU has no streams",
    "aten::tensor_split.tensor_indices_or_sections": _ON_THE_CPU,
    "aten::reflection_pad1d_backward": _TRUSTS,
    "aten::reflection_pad1d_backward.grad_input": _TRUSTS,
    **dict.fromkeys(
        ("aten::nanquantile", "aten::nanquantile.out", "aten::quantile", "aten::quantile.out"),
        "torch checks on the CPU alone that q is between 0 and 1",
    ),
}
"""The overloads of aten that are not compared, with the reason."""

EXCEPTIONS: dict[str, str] = {
    **{
        f"aten::{name} drawn": _COMPRESSED
        for each in ("to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr")
        for name in (each, f"_{each}")
    },
    "aten::to_mkldnn drawn": "oneDNN's tensors are the CPU's alone",
    **{f"optim.SGD, fused {dtype}": _UNSTEPPED for dtype in ("bfloat16", "float16")},
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


def complaints(finished: Iterable[Finished], exceptions: Mapping[str, str] = EXCEPTIONS) -> list[str]:
    """Return a line for each entry that fails unlisted, or is listed and passes, or is excused of more than a refusal.

    A refusal is an error that names the operator and says that the chip does not compute it. No layer is excused, save
    that those that draw random numbers may differ by rounding.
    """
    lines = []
    for done in finished:
        name = str(done.entry)
        if name in exceptions:
            if not done.outcome.failed:
                lines.append(f"{name}: is listed as an exception, but gives the CPU's results; take it off the list")
            elif done.entry.name in RANDOM_LAYERS and done.outcome.rounded == done.outcome.failed:
                continue
            elif done.outcome.refused < done.outcome.failed:
                lines.append(f"{name}: is listed as an exception, but does worse than refuse: {_told(done.outcome)}")
            elif done.entry.kind == "layer":
                lines.append(f"{name}: is listed as an exception, but no layer may be")
        elif done.outcome.failed:
            lines.append(f"{name}: {_told(done.outcome)}")
    return lines


def complaints_of_whole(finished: Iterable[Finished], exceptions: Mapping[str, str] = EXCEPTIONS) -> list[str]:
    """Return the complaints of a run of all entries: whether the list of exceptions is too long, or names nothing."""
    finished = list(finished)
    lines = complaints(finished, exceptions)
    names = {str(done.entry) for done in finished}
    lines += [
        f"{done.entry}: no call of this layer runs on the CPU, so that nothing was compared"
        for done in finished
        if done.entry.kind == "layer" and not done.outcome.calls and str(done.entry) not in NOT_ON_THE_CPU
    ]
    lines += [
        f"{done.entry}: is listed as one that the CPU does not run, but it does; take it off the list"
        for done in finished
        if done.outcome.calls and str(done.entry) in NOT_ON_THE_CPU
    ]
    lines += [
        f"{name}: is listed as an exception, but there is no such entry" for name in exceptions if name not in names
    ]
    run = sum(done.outcome.calls > 0 for done in finished if done.entry.kind == "operator")
    if len(exceptions) > MOST * run:
        lines.append(
            f"{len(exceptions)} exceptions are listed, more than {MOST:.0%} of the {run} operators that the CPU runs"
        )
    return lines


def _told(outcome: Outcome) -> str:
    return f"{outcome.failed} of {outcome.calls} calls fail: " + "; ".join(outcome.failures)
