"""Intel Neural Compressor, the real one, on the simulated Gaudi; and the operators that its models call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
import torch
from tests.docs.page import ROOT
from tests.engines import needs_engines, with_engines
from tests.scripts import run_script

import northbridge
import northbridge_hpu

SCRIPT = ROOT / "docs" / "scripts" / "float8_errors.py"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, list[float | None]]]:
    """The errors of each scale method, on a generation."""

    def measure(generation: str) -> dict[str, list[float | None]]:
        folder = tmp_path_factory.mktemp("errors")
        variables = {"NORTHBRIDGE_HPU_SIM_GENERATION": generation, "NORTHBRIDGE_HPU_SIM_SERVER": str(folder)}
        ran = run_script(
            SCRIPT, "measure", str(folder), folder=folder, environ=with_engines({**os.environ, **variables})
        )
        assert ran.status == 0, ran.said
        assert sorted(path.suffix for path in folder.rglob("inc_hooks_maxabs.*")) == [".json"] * 18 + [".npz"] * 18
        found: dict[str, list[float | None]] = json.loads(ran.said.splitlines()[-1])
        return found

    return measure


@needs_engines
def test_inc_measures_and_quantizes_within_the_range_of_the_card(
    measured: Callable[[str], dict[str, list[float | None]]],
) -> None:
    found = measured("2")

    for method in ("maxabs_hw", "maxabs_pow2", "maxabs_arbitrary"):
        assert all(error is not None and 0.005 < error < 0.06 for error in found[method]), found[method]
    unscaled = found["unit_scale"][-1]
    assert unscaled is not None
    assert unscaled > 0.08  # inputs of 300 are cut at 240


@pytest.mark.parametrize(("generation", "largest"), [(2, 240.0), (3, 448.0)])
def test_a_cast_ends_where_the_generation_does(
    hpu: object, monkeypatch: pytest.MonkeyPatch, generation: int, largest: float
) -> None:
    monkeypatch.setenv("NORTHBRIDGE_HPU_SIM_GENERATION", str(generation))
    wide = torch.tensor([1.0, -1000.0], device="hpu")

    found, amax = torch.ops.hpu.cast_to_fp8_v2(wide, None, False, True, torch.float8_e4m3fn)
    halved, _ = torch.ops.hpu.cast_to_fp8_v2.scalar(wide, 0.5, False, False, torch.float8_e4m3fn)
    again = torch.ops.hpu.cast_from_fp8(halved, torch.tensor(2.0, device="hpu"), torch.bfloat16)

    assert found.float().tolist() == [1.0, -largest]
    assert amax.item() == 1000
    assert again.tolist() == [1.0, -2 * largest]


def test_a_cast_does_not_depend_on_how_a_model_is_quantized(hpu: object) -> None:
    from habana_frameworks.torch.utils.experimental import _set_is_dynamic_quantization

    wide = torch.linspace(-3, 3, 16, device="hpu")

    found = []
    for dynamic in (True, False):
        _set_is_dynamic_quantization(dynamic)
        found.append(torch.ops.hpu.cast_to_fp8_v2(wide, None, False, False, torch.float8_e4m3fn)[0].float().tolist())

    assert found[0] == found[1]


def test_a_product_has_its_scales_and_its_bias(hpu: object) -> None:
    left, right = (torch.full((2, 2), 2.0, device="hpu").to(torch.float8_e4m3fn) for _ in range(2))
    bias, before = torch.ones(2, device="hpu"), torch.ones(2, 2, device="hpu")

    found = torch.ops.hpu.fp8_gemm_v2.scalar(left, False, right, True, before, torch.float32, 0.5, 3.0, bias, True)

    assert found.tolist() == [[14.0, 14.0], [14.0, 14.0]]


@pytest.mark.parametrize(("quant", "step"), [(False, "prepare(model, config), and later"), (True, "convert")])
def test_lightning_habanas_inference_names_the_call_to_write(quant: bool, step: str) -> None:
    with pytest.raises(northbridge.UnsupportedError) as caught:
        northbridge_hpu.HPUPrecisionPlugin("fp8").convert_modules(torch.nn.Linear(1, 1), inference=True, quant=quant)

    assert f"Fix: neural_compressor.torch.quantization.{step}" in str(caught.value)
