"""Sparse and complex tensors, which a Gaudi does not have: refused before training, in every namespace."""

from __future__ import annotations

from collections.abc import Callable

NO_SPARSE = (
    "but 'hpu' has no sparse tensors (Unrecognized tensor type ID: SparseHPU). Fix: sparse=False, and Adam instead of"
    " SparseAdam"
)
REFUSED = {
    "sparse gradients": f"'words' is Embedding(sparse=True), {NO_SPARSE}",
    "a bag of them": f"'words' is EmbeddingBag(sparse=True), {NO_SPARSE}",
    "complex": (
        "the parameter 'waves.weight' is complex64, but 'hpu' cannot hold it (Complex datatype is not supported on HPU"
        " device). Fix: torch.view_as_real()"
    ),
    "sparse": (
        "the parameter 'graph.edges' is sparse, but 'hpu' has no sparse tensors (Unrecognized tensor type ID:"
        " SparseHPU). Fix: to_dense()"
    ),
}
NAMESPACES = ("lightning.pytorch", "lightning.fabric", "pytorch_lightning", "lightning_fabric")


def test_tensors_that_it_does_not_have_are_refused(run: Callable[..., str]) -> None:
    said = run("unsupported.py")

    found = dict(line.rsplit(" | ", 1) for line in said.splitlines() if line.count(" | ") == 2)
    assert found == {f"{each} | {what}": text for each in NAMESPACES for what, text in REFUSED.items()}
