"""Faults that are made on purpose: drawn by a seed, and made where the backend is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from tests.mutation.mutations import TEN, Mutation, breaking, draw

SEEDS = range(1, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_draws_the_same_ten_again(seed: int) -> None:
    assert draw(seed) == draw(seed)
    assert len(set(draw(seed))) == TEN
    assert Counter(mutation.only.partition("/")[0] for mutation in draw(seed)) == {"C1": 7, "C3": 3}


def test_another_seed_draws_others() -> None:
    assert len({draw(seed) for seed in SEEDS}) == len(SEEDS)


def test_every_fault_is_told_in_words_and_names_a_test() -> None:
    for seed in SEEDS:
        for mutation in draw(seed):
            assert mutation.subject in mutation.describe()
            assert mutation.ought.startswith(mutation.only.partition("/")[0])


ASKS = """
import json
import sys
import torch
import northbridge
northbridge.load("cpu_sim")
print(json.dumps(eval(sys.argv[1])))
"""


def ask(expression: str, kind: str = "", subject: str = "") -> object:
    """Return what ``expression`` is in a process with the fault."""
    mutation = Mutation(kind, subject, 0, "C1/", "C1/")
    environ = breaking("cpu_sim", mutation, os.environ) if kind else dict(os.environ)
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASKS, expression],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return json.loads(said)


@pytest.mark.parametrize(
    ("kind", "subject", "expression", "sound", "wrong"),
    [
        (
            "one ulp off",
            "aten.add.Tensor",
            "(torch.ones(2, device='cpu_sim') + 1).tolist()",
            [2.0, 2.0],
            [2.0 + 2**-22, 2.0],
        ),
        (
            "last lost",
            "aten.mul.Tensor",
            "(torch.ones(2, device='cpu_sim') * 3).tolist()",
            [3.0, 3.0],
            [3.0, 0.0],
        ),
        (
            "rounded",
            "aten.exp.default",
            "torch.full((1,), 3.0, device='cpu_sim').exp().tolist()",
            [20.08553695678711],
            [20.125],
        ),
        (
            "wrong dtype",
            "aten.sqrt.default",
            "str(torch.ones(1, device='cpu_sim').sqrt().dtype)",
            "torch.float32",
            "torch.float16",
        ),
        (
            "does nothing",
            "select",
            "[northbridge.get('cpu_sim').device.select(1), torch.cpu_sim.current_device()]",
            [None, 1],
            [None, 0],
        ),
    ],
)
def test_the_fault_is_made_and_nothing_else(
    kind: str, subject: str, expression: str, sound: object, wrong: object
) -> None:
    assert ask(expression) == sound
    assert ask(expression, kind, subject) == wrong
