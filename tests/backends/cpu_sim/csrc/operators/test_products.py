"""Each option of rounding changes its own results and no others, and they stay near the exact ones."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from northbridge_cpu_sim import ROUNDING_OPTIONS
from northbridge_cpu_sim.settings import SimSettings

PROGRAM = """
import hashlib, json
import torch
from torch.nn import functional

CONVOLUTIONS = functional.conv1d, functional.conv2d, functional.conv3d, functional.conv_transpose2d

def compute(device, wide):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape, dtype):
        given = torch.randn(shape, generator=generator).to(dtype).to(device)
        return given.double() if wide else given

    def products(dtype):
        a, b, c, d = (draw(*shape, dtype=dtype) for shape in ((5, 96), (96, 7), (5, 7), (3, 5, 96)))
        many = b.expand(3, 96, 7)
        return [a @ b, torch.addmm(c, a, b, beta=2, alpha=3), d @ many, torch.baddbmm(c.expand(3, 5, 7), d, many)]

    def convolutions(dtype):
        found = []
        for convolve, size in zip(CONVOLUTIONS, (1, 2, 3, 2)):
            for groups in (1, 2):
                shapes = (5, 8, *[4] * size), (8, 8 // groups, *[3] * size), (8,)
                inputs = [draw(*shape, dtype=dtype).requires_grad_() for shape in shapes]
                result = convolve(*inputs, padding=1, groups=groups)
                found += [result, *torch.autograd.grad(result, inputs, draw(*result.shape, dtype=dtype))]
        return found

    small, whole, number = draw(4, 4, dtype=torch.bfloat16), torch.eye(4, device=device), torch.float32
    table = draw(33, 65, dtype=number)
    return {
        "float32": [*products(number), *convolutions(number)],
        "bfloat16": [*products(torch.bfloat16), *convolutions(torch.bfloat16)],
        "float16": products(torch.float16),
        "denormals": [small * 2.0**-127 @ whole.to(small.dtype)],
        "sums": [table.sum(), table.sum(1), table.mean(), table.mean(-1, keepdim=True)],
        "the rest": [table.exp(), table.cumsum(0), table.softmax(1), table.long().sum()],
    }

def digest(tensors):
    return hashlib.sha256(b"".join(each.detach().double().cpu().numpy().tobytes() for each in tensors)).hexdigest()

def distance(found, exact):
    return ((found.detach().double().cpu() - exact).abs().max() / exact.abs().max()).item()

found, exact = compute("cpu_sim", False), compute("cpu", True)
distances = {kind: max(map(distance, found[kind], exact[kind])) for kind in found}
digests = {kind: digest(each) for kind, each in found.items()}
cpus = {kind: digest(each) for kind, each in compute("cpu", False).items()}
print(json.dumps([digests, cpus, distances, torch.ops.mkldnn._is_mkldnn_bf16_supported()]))
"""

CHANGED = {
    "PRODUCTS": {"float32"},
    "ACCUMULATION": {"bfloat16"},
    "ORDER": {"float32", "sums"},
    "DENORMALS": {"denormals"},
}
"""The results that each option changes.

Another order changes those of 16 bits too where a CPU, as one without AVX-512, rounds to them after each addition.
"""

FAR = {"float32": 2e-3, "bfloat16": 3e-2, "float16": 2e-3, "sums": 1e-6, "the rest": 1e-6}
"""The distance of results from exact ones, relative to the largest, with all options."""


@pytest.mark.parametrize("option", CHANGED)
def test_option_changes_its_own_digests(in_fork: Callable[..., str], option: str) -> None:
    variable = f"NORTHBRIDGE_CPU_SIM_{option}"

    found, cpus, _, rounds_once = json.loads(in_fork(PROGRAM, **{variable: ROUNDING_OPTIONS[variable]}))

    more = {"bfloat16"} if option == "ORDER" and not rounds_once else set[str]()
    assert {kind for kind in found if found[kind] != cpus[kind]} == CHANGED[option] | more


def test_no_option_gives_the_cpus_digests(in_fork: Callable[..., str]) -> None:
    found, cpus, *_ = json.loads(in_fork(PROGRAM))

    assert found == cpus


def test_results_are_near_the_exact_ones(in_fork: Callable[..., str]) -> None:
    _, _, distances, _ = json.loads(in_fork(PROGRAM, **ROUNDING_OPTIONS))

    assert distances.keys() - {"denormals"} == FAR.keys()  # whose results are 0: see the known numbers
    assert {kind: distances[kind] for kind, most in FAR.items() if distances[kind] > most} == {}


def test_each_option_names_a_public_source() -> None:
    (fields,) = (each.body for each in ast.parse(inspect.getsource(SimSettings)).body if isinstance(each, ast.ClassDef))
    said = {ast.unparse(field).partition(":")[0]: ast.unparse(after) for field, after in pairwise(fields)}

    for variable in ROUNDING_OPTIONS:
        assert "https://" in said[variable.removeprefix(SimSettings.prefix).lower()]


@pytest.mark.parametrize(
    ("option", "left", "right", "product"),
    [
        ("PRODUCTS", "[[1 + 2**-10 + 2**-11]]", "[[1.0]]", 1 + 2**-10),  # ten bits are read
        ("PRODUCTS", "[[float('inf'), 1.0]]", "[[1.0], [1.0]]", float("inf")),
        ("ACCUMULATION", "[[256.0, 1.0, 1.0, 1.0]]", "[[1.0]] * 4", 256.0),  # 257 is not in bfloat16
        ("DENORMALS", "[[2**-127]]", "[[1.0]]", 0.0),
        ("DENORMALS", "[[2**-100]]", "[[2**-27]]", 0.0),
        ("DENORMALS", "[[2**-126]]", "[[1.0]]", 2**-126),
    ],
)
def test_product_of_known_numbers(
    in_fork: Callable[..., str], option: str, left: str, right: str, product: float
) -> None:
    dtype = "float32" if option == "PRODUCTS" else "bfloat16"
    variable = f"NORTHBRIDGE_CPU_SIM_{option}"
    program = f"""
    left, right = (torch.tensor(each, dtype=torch.{dtype}, device="cpu_sim") for each in ({left}, {right}))
    print((left @ right).item())
    """

    assert float(in_fork(program, **{variable: ROUNDING_OPTIONS[variable]})) == product
