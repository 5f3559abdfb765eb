"""Comparison of the trainings on a chip with those on the CPU, and the rules by which they may differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CHIPS = ("cpu_sim", "hpu", "sdaa")
REFERENCE = "cpu"
DEVICES = (1, 2)
EQUAL = "equal"


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
"""There are three at most."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one model on one chip with a number of devices."""

    model: str
    chip: str
    devices: int
    difference: str
    """:data:`EQUAL`, or how a rank differs from the CPU's."""

    rule: Rule | None = None
    """The rule that allows the difference."""

    @property
    def is_wrong(self) -> bool:
        """Return True if it differs, and no rule stands for it."""
        return self.difference != EQUAL and self.rule is None

    def __str__(self) -> str:
        return f"{self.model} on {self.chip} with {self.devices}: {self.difference}"


def judge(model: str, chip: str, devices: int, folder: Path, rules: Sequence[Rule] = RULES) -> Verdict:
    """Return the verdict on what ``folder`` has of a model; the first rank that differs decides."""
    for rank in range(devices):
        found, wanted = (_read(folder / each / f"{model}-{devices}-{rank}.pt") for each in (chip, REFERENCE))
        difference, size = _compare(found, wanted)
        if difference == EQUAL:
            continue
        for rule in rules:
            stands = chip in rule.chips and model in rule.models
            if stands and ((rule.refused and re.search(rule.refused, difference)) or size <= rule.within):
                return Verdict(model, chip, devices, difference, rule)
        return Verdict(model, chip, devices, difference)
    return Verdict(model, chip, devices, EQUAL)


def unused_rules(verdicts: Sequence[Verdict], rules: Sequence[Rule] = RULES) -> list[str]:
    """Return a complaint about each rule that no verdict needs, and about too many rules."""
    used = [verdict.rule for verdict in verdicts]
    lines = [f"the rule for {rule.operation} stands, and no training needs it" for rule in rules if rule not in used]
    return [*lines, *([f"{len(rules)} rules are too many: three at most"] if len(rules) > 3 else [])]


def _read(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True) if path.exists() else {"missing": path.name}


def _compare(found: dict[str, Any], wanted: dict[str, Any]) -> tuple[str, float]:
    """Return how ``found`` differs, and the largest relative difference: infinite if something is not there."""
    if "losses" not in wanted:
        return f"the CPU has no result: {wanted}", torch.inf
    if wanted["losses"].unique().numel() < 2 or not wanted["losses"].isfinite().all():
        return f"the CPU learns nothing: losses of {wanted['losses'].tolist()}", torch.inf
    if "losses" not in found:
        return f"refused: {found['refused']}" if "refused" in found else "it did not end", torch.inf
    if found["weights"].keys() != wanted["weights"].keys():
        return f"weights of other names: {sorted(found['weights'].keys() ^ wanted['weights'].keys())}", torch.inf
    names = [name for name, each in wanted["weights"].items() if not torch.equal(each, found["weights"][name])]
    same_losses = torch.equal(found["losses"], wanted["losses"])
    if same_losses and not names:
        return EQUAL, 0.0
    losses = _difference([found["losses"]], [wanted["losses"]])
    weights = _difference(*([each["weights"][name] for name in wanted["weights"]] for each in (found, wanted)))
    what = f"losses by {losses:.1g}, weights by {weights:.1g}" + (f" ({names[0]} first)" if names else "")
    return f"differs: {what}", max(losses, weights)


def _difference(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """Return the norm of the difference, relative to that of ``wanted``; infinite for NaN."""
    mine, theirs = (torch.cat([each.double().flatten() for each in tensors]) for tensors in (found, wanted))
    difference = float((mine - theirs).norm() / theirs.norm())
    return difference if difference == difference else torch.inf
