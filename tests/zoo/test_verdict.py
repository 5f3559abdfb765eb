"""When two trainings are equal, when a rule stands for their difference, and when the command complains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.zoo.verdict import EQUAL, RULES, Rule, Verdict, judge, unused_rules

RULE = Rule("tanh", "its table has 8 entries", chips=("hpu",), models=("net",), within=1e-2)
REFUSAL = Rule("a sort", "it has none", chips=("hpu",), models=("net",), refused="has no sort")


@pytest.fixture
def found() -> dict[str, Any]:
    """What a rank of the chip has written."""
    return {"losses": torch.tensor([2.0, 1.0]), "weights": {"net.weight": torch.ones(2), "net.bias": torch.zeros(1)}}


def _judge(folder: Path, found: dict[str, Any] | None, rules: tuple[Rule, ...] = (), chip: str = "hpu") -> Verdict:
    wanted = {"losses": torch.tensor([2.0, 1.0]), "weights": {"net.weight": torch.ones(2), "net.bias": torch.zeros(1)}}
    for accelerator, each in {"cpu": wanted, chip: found}.items():
        (folder / accelerator).mkdir()
        if each is not None:
            torch.save(each, folder / accelerator / "net-1-0.pt")
    return judge("net", chip, 1, folder, rules)


def test_equal_trainings_are_equal(tmp_path: Path, found: dict[str, Any]) -> None:
    verdict = _judge(tmp_path, found, (RULE,))

    assert (verdict.difference, verdict.rule, verdict.is_wrong) == (EQUAL, None, False)


def test_the_last_bit_of_a_weight_is_a_difference(tmp_path: Path, found: dict[str, Any]) -> None:
    found["weights"]["net.weight"] = found["weights"]["net.weight"].nextafter(torch.tensor(2.0))

    verdict = _judge(tmp_path, found)

    assert verdict.is_wrong
    assert str(verdict) == "net on hpu with 1: differs: losses by 0, weights by 1e-07 (net.weight first)"


@pytest.mark.parametrize(("off", "wrong"), [(1e-3, False), (1e-1, True), (torch.nan, True)])
def test_a_rule_stands_within_its_bound(tmp_path: Path, found: dict[str, Any], off: float, wrong: bool) -> None:
    found["losses"] = found["losses"] + off

    verdict = _judge(tmp_path, found, (RULE,))

    assert verdict.is_wrong is wrong


def test_a_rule_of_another_chip_does_not_stand(tmp_path: Path, found: dict[str, Any]) -> None:
    found["losses"] = found["losses"] + 1e-3

    assert _judge(tmp_path, found, (RULE,), chip="sdaa").is_wrong


@pytest.mark.parametrize(("said", "wrong"), [("'hpu' has no sort", False), ("'hpu' has no weights", True)])
def test_a_refusal_needs_a_rule_of_its_words(tmp_path: Path, said: str, wrong: bool) -> None:
    verdict = _judge(tmp_path, {"refused": said}, (RULE, REFUSAL))

    assert verdict.is_wrong is wrong
    assert verdict.difference == f"refused: {said}"


@pytest.mark.parametrize("rules", [(), (RULE, REFUSAL)])
def test_a_training_without_a_result_is_wrong(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    assert _judge(tmp_path, None, rules).is_wrong


def test_a_rule_that_no_training_needs_is_a_complaint() -> None:
    needed = Verdict("net", "hpu", 1, "differs", RULE)

    assert unused_rules([needed], (RULE,)) == []
    assert unused_rules([needed], (RULE, REFUSAL)) == ["the rule for a sort stands, and no training needs it"]
    assert unused_rules([needed], (RULE,) * 4) == ["4 rules are too many: three at most"]


def test_there_are_three_rules_at_most() -> None:
    assert len(RULES) <= 3
