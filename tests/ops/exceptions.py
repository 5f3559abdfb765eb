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

_NOT_CALLED: dict[str, tuple[str, ...]] = {
    "its results belong to a transform of torch.func, and cannot be read": ("_add_batch_dim", "_remove_batch_dim"),
    "after a call with a wrong shape it divides by zero, on the CPU too": (
        "_nnpack_spatial_convolution",
        "_nnpack_spatial_convolution.out",
    ),
    "it takes or gives tensors of the CPU on every device": (
        *("_pack_padded_sequence.out", "_shape_as_tensor", "_test_ambiguous_defaults.a"),
        *("_test_ambiguous_defaults.b", "_to_cpu", "choose_qparams_optimized", "fbgemm_pack_gemm_matrix_fp16"),
        *("randint_like.Tensor", "randint_like.Tensor_generator", "randint_like.Tensor_generator_out"),
        *("randint_like.Tensor_out", "tensor_split.tensor_indices_or_sections"),
    ),
    "memory of the CPU alone can be pinned": ("_pin_memory", "_pin_memory.out", "pin_memory"),
    "it does not check its strides or padding, and reads beyond them": (
        *("_reshape_alias", "_reshape_alias_copy", "_reshape_alias_copy.out", "reflection_pad1d_backward"),
        *("reflection_pad1d_backward.grad_input",),
    ),
    "it makes files": ("from_file", "from_file.out"),
    "it tells the device's index": ("get_device",),
    "the CPU has no streams": ("record_stream",),
    "torch checks on the CPU alone that q is between 0 and 1": (
        "nanquantile",
        "nanquantile.out",
        "quantile",
        "quantile.out",
    ),
}
NOT_CALLED = {f"aten::{name}": reason for reason, names in _NOT_CALLED.items() for name in names}
"""The overloads of aten that are not compared, with the reason."""

EXCEPTIONS: dict[str, str] = {
    **{
        f"aten::{name} drawn": _COMPRESSED
        for each in ("to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr")
        for name in (each, f"_{each}")
    },
    "aten::to_mkldnn drawn": "oneDNN's tensors are the CPU's alone",
    **{f"optim.SGD, fused {dtype}": _UNSTEPPED for dtype in ("bfloat16", "float16")},
    **{f"nn.Dropout {dtype}": _DROPOUT for dtype in ("bfloat16", "float16")},
    **{f"sparse.mm.reduce {each}": _COMPRESSED for each in ("bfloat16", "float16", "float32", "float32, traced")},
    **{f"sparse.sampled_addmm {each}": _COMPRESSED for each in ("complex64", "float32", "float32, traced")},
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
