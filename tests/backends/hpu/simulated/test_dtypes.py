"""Dtypes that a card does not have, or has in name only."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run

TRY = """
try:
    print({expression})
except RuntimeError as error:
    print("refused:", error)
"""
WIDE = TRY.format(expression="torch.tensor([2**40]).to('hpu').item() == 2**40")


@pytest.mark.shows("complex tensors are refused")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers_are_refused(hpu: ModuleType, dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError, match="Complex datatype is not supported on HPU device"):
        torch.ones(1, dtype=dtype).to("hpu")


@pytest.mark.shows("float16 is refused by the first generation")
def test_the_first_generation_refuses_float16(run: Run) -> None:
    said = run(
        TRY.format(expression="torch.ones(1, dtype=torch.float16, device='hpu')"), NORTHBRIDGE_HPU_SIM_GENERATION="1"
    )
    assert said.startswith("refused: float16/half is not supported on Gaudi.")


@pytest.mark.shows("float8 is refused by the first generation")
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_the_first_generation_refuses_float8(run: Run, dtype: str) -> None:
    said = run(TRY.format(expression=f"torch.ones(1).to(torch.{dtype}).to('hpu')"), NORTHBRIDGE_HPU_SIM_GENERATION="1")
    assert said.startswith("refused: float8 is not supported on Gaudi.")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_the_second_generation_has_the_small_dtypes(hpu: ModuleType, dtype: torch.dtype) -> None:
    assert torch.ones(1).to(dtype).to("hpu").float().item() == 1


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fnuz])
def test_dtype_in_no_vendor_table_is_refused(hpu: ModuleType, dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError, match="is not supported on HPU device"):
        torch.zeros(1, dtype=dtype).to("hpu")


@pytest.mark.shows("float64 is computed as float32")
def test_float64_is_computed_as_float32(hpu: ModuleType) -> None:
    third = torch.tensor(1.0, dtype=torch.float64, device="hpu") / 3
    assert third.dtype == torch.float64
    assert third.item() == (torch.tensor(1.0) / 3).item()


@pytest.mark.shows("int64 is held as int32")
@pytest.mark.parametrize(
    "environ",
    [
        {"PT_HPU_LAZY_MODE": "1"},
        {"PT_HPU_LAZY_MODE": "1", "PT_ENABLE_INT64_SUPPORT": "1"},
        {"PT_HPU_LAZY_MODE": "0", "PT_ENABLE_INT64_SUPPORT": "0"},
        {"PT_HPU_LAZY_MODE": "0", "NORTHBRIDGE_HPU_SIM_GENERATION": "1"},
    ],
)
def test_int64_that_does_not_fit_in_int32_is_refused(run: Run, environ: dict[str, str]) -> None:
    said = run(WIDE, **environ).splitlines()[-1]
    assert said.startswith("refused:")
    assert str(2**40) in said


def test_int64_wraps_on_the_card_where_it_is_held_as_int32(run: Run) -> None:
    program = "print((torch.tensor([2**31 - 1]).to('hpu') + 1).item())"
    assert run(program, PT_HPU_LAZY_MODE="1") == f"{-(2**31)}\n"


def test_int64_is_int64_in_eager_mode(run: Run) -> None:
    assert run(WIDE, PT_HPU_LAZY_MODE="0").endswith("True\n")
