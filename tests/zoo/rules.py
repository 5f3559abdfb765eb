"""The rules by which a training may differ from the CPU's; there are three at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One operation that a chip does not compute as the CPU does, and why."""

    operation: str
    why: str
    chips: tuple[str, ...]
    models: tuple[str, ...]
    refused: str = ""
    """The pattern of the error that refuses the training before its first step."""

    within: float = 0.0
    """The largest difference of losses and weights, relative to their norm."""


RULES = (
    Rule(
        "the gradient of `Embedding(sparse=True)`",
        "The simulated Gaudi has no sparse tensors, because no public source has them there. HCCL, TCCL and `simccl`"
        " do not add up sparse tensors of several ranks. The training is refused before its first step.",
        chips=("cpu_sim", "hpu", "sdaa"),
        models=("recommender-sparse",),
        refused=r"is Embedding\(sparse=True\), but '\w+' (has no sparse tensors|cannot add up sparse gradients)",
    ),
    Rule(
        "`torch.autocast`",
        "The vendor's lists for `hpu` differ from the CPU's: `mean` and `softmax` are computed in bfloat16 there.",
        chips=("hpu",),
        models=("llama-bf16",),
        within=1e-3,
    ),
)
