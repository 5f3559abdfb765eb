"""Faults planned on the simulated card: it shares the chip, and so what can go wrong on it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch

from northbridge_cpu_sim import Fault, faults_met, planned_faults


def test_a_result_on_the_card_is_changed_as_planned(hpu: ModuleType) -> None:
    x = torch.ones(2, device="hpu")
    with planned_faults(Fault("corrupt", op="add", value=7)):
        first, second = x + 1, x + 1

    assert (first.tolist(), second.tolist()) == ([7.0, 2.0], [2.0, 2.0])
    assert faults_met()[-1].op == "aten::add"


def test_the_variable_plans_faults_on_the_card(run: Callable[..., str]) -> None:
    said = run(
        """
        x = torch.ones(2, 2, device="hpu")
        for compute in (lambda: x @ x, lambda: x @ x, lambda: x + 1):
            try:
                print(compute().tolist())
            except RuntimeError as error:
                print(error)
        """,
        NORTHBRIDGE_CPU_SIM_FAULTS="raise op=mm; lose op=add",
    )

    raised, product, lost = [line for line in said.splitlines() if not line.startswith("northbridge: planned")]
    plan = "of NORTHBRIDGE_CPU_SIM_FAULTS"
    assert raised == f"the simulated chip failed, in aten::mm on hpu:0: it was planned (raise op=aten::mm, {plan})"
    assert product == "[[2.0, 2.0], [2.0, 2.0]]"
    assert lost == f"device hpu:0 was lost (planned fault: lose op=aten::add, {plan}), and aten::add needs it"
