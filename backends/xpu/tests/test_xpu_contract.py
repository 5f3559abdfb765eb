"""The contract, compared with the installed torch's own torch.xpu, which every wheel has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

import northbridge
import northbridge_xpu
from northbridge.contract import Contract, check, contract_of

PACKAGE = Path(str(northbridge_xpu.__file__)).parent
DEEPSPEED = {"deepspeed.accelerator.xpu_accelerator"}  # need not be installed


@pytest.fixture(scope="module")
def contract() -> Contract:
    found = contract_of(northbridge.get("xpu"))
    assert found is not None
    return found


def is_older(release: str) -> bool:
    """Return True if the installed torch is older than ``release``."""
    installed = [int(number) for number in re.findall(r"\d+", torch.__version__)[:2]]
    return installed < [int(number) for number in release.split(".")]


def test_each_name_and_signature_is_torchs(contract: Contract) -> None:
    findings = {each.name: each for each in check(contract) if each.kind not in ("environment", "behaviour")}
    expected = {name for name, each in findings.items() if name not in DEEPSPEED and not is_older(each.since or "0.0")}

    assert len(expected) > (25 if is_older("2.6") else 30)
    wrong = {name: findings[name].found for name in expected if findings[name].verdict != "holds"}
    assert wrong == {}


def test_what_is_required_is_in_every_torch_from_2_4(contract: Contract) -> None:
    assert {each.since for each in contract.symbols if each.required and each.kind == "function"} == {"2.4"}


def test_the_variables_are_those_that_are_read(contract: Contract) -> None:
    from northbridge_xpu.settings import XPUSettings

    variables = {each.name for each in contract.symbols if each.kind == "environment"}

    assert variables == {XPUSettings.variable(field) for field in XPUSettings.model_fields}


def test_what_the_code_names_of_torch_is_in_it(contract: Contract) -> None:
    named = {
        ast.unparse(node)
        for file in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.")
    }

    assert named == {"torch.xpu", "torch.xpu._is_compiled"}
    assert named <= {each.name for each in contract.symbols}


def test_the_default_of_autocast_is_torchs() -> None:
    """torch.xpu has no function that says it; torch warns of other dtypes."""
    for dtype in northbridge.get("xpu").device.autocast_dtypes():
        with torch.autocast("xpu", dtype=dtype):
            assert torch.get_autocast_dtype("xpu") == dtype
    with pytest.warns(UserWarning, match="only supports dtype"):
        torch.autocast("xpu", dtype=torch.float64)
