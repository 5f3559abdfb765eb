"""Errors that a device keeps until somebody waits for it (``NORTHBRIDGE_CPU_SIM_ERRORS=asynchronous``)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

BEFORE = """
def refused(call):
    try:
        print("worked", call())
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0])
weights = torch.ones(4, 2, device="cpu_sim")
rows = torch.tensor([1, 9], device="cpu_sim")
"""


@pytest.fixture
def asynchronously(in_fork: Callable[..., str]) -> Callable[[str], list[str]]:
    def run(program: str) -> list[str]:
        text = BEFORE + "\n".join(line.strip() for line in program.splitlines())
        return in_fork(text, NORTHBRIDGE_CPU_SIM_ERRORS="asynchronous").splitlines()

    return run


TOLD = "RuntimeError: cpu_sim:0 failed at aten::index_select: index out of range in self"


def test_an_index_that_is_not_there_shows_at_whatever_waits_next(asynchronously: Callable[[str], list[str]]) -> None:
    waits = (
        "torch.cpu_sim.synchronize(device)",
        "torch.cpu_sim.current_stream(device).synchronize()",
        "torch.cpu_sim.current_stream(device).record_event().synchronize()",
        "found.sum().item()",
        "found.cpu()",
    )

    said = asynchronously(
        "\n".join(
            f"""
            device = torch.device("cpu_sim", {index})
            found = torch.nn.functional.embedding(torch.tensor([1, 9], device=device), torch.ones(4, 2, device=device))
            print(tuple(found.shape), (found * 2).device)
            refused(lambda: {wait})
            """
            for index, wait in enumerate(waits)
        )
    )

    told = [[f"(2, 2) cpu_sim:{index}", TOLD.replace("cpu_sim:0", f"cpu_sim:{index}")] for index in range(len(waits))]
    assert said == [line for each in told for line in each]


def test_the_device_takes_no_more_work_once_the_error_was_told(asynchronously: Callable[[str], list[str]]) -> None:
    said = asynchronously(
        """
        torch.nn.functional.embedding(rows, weights)
        refused(torch.cpu_sim.synchronize)
        refused(lambda: weights + 1)
        refused(lambda: weights.copy_(torch.ones(4, 2)))
        refused(lambda: torch.ones(2, device="cpu_sim:1").sum().item())
        """
    )

    assert said == [TOLD, TOLD, TOLD, "worked 2.0"]


def test_what_shapes_and_types_alone_show_is_raised_at_once(asynchronously: Callable[[str], list[str]]) -> None:
    said = asynchronously(
        """
        refused(lambda: weights @ weights)
        refused(lambda: weights + torch.ones(2))
        refused(lambda: torch.rand(2, device="cpu_sim", generator=torch.Generator()))
        refused(lambda: weights[1:].add_(weights[:-1]))
        refused(lambda: torch.linalg.cholesky(-torch.eye(2, device="cpu_sim")))
        from northbridge_cpu_sim import Fault, planned_faults
        with planned_faults(Fault("raise", op="mm")): refused(lambda: weights @ weights.t())
        refused(lambda: weights.sum().item())
        """
    )

    assert re.match(r"RuntimeError: (mm: )?mat1 and mat2 shapes cannot be multiplied", said[0])  # torch 2.15 says "mm"
    assert "Expected all tensors to be on the same device" in said[1]
    assert "Expected a 'cpu_sim' device type for generator but found 'cpu'" in said[2]
    assert "some elements of the input tensor and the written-to tensor refer to a single" in said[3]
    assert "not positive-definite" in said[4]
    assert said[5].startswith("RuntimeError: the simulated chip failed, in aten::mm on cpu_sim:0: it was planned")
    assert said[6] == "worked 8.0"


def test_reading_data_raises_the_earlier_error(asynchronously: Callable[[str], list[str]]) -> None:
    reads = (
        "torch.equal(found, found)",
        "found.nonzero()",
        "found.masked_select(found > 0)",
        "found.unique()",
        "found[found > 0]",
        "found.__setitem__(found > 0, torch.ones(4, device=device))",  # one number would be filled in on the chip
    )

    said = asynchronously(
        "\n".join(
            f"""
            device = torch.device("cpu_sim", {index})
            found = torch.nn.functional.embedding(torch.tensor([1, 9], device=device), torch.ones(4, 2, device=device))
            print(tuple(found[torch.tensor([0], device=device)].shape))
            refused(lambda: {read})
            """
            for index, read in enumerate(reads)
        )
    )

    told = [["(1, 2)", TOLD.replace("cpu_sim:0", f"cpu_sim:{index}")] for index in range(len(reads))]
    assert said == [line for each in told for line in each]


def test_the_error_of_a_list_of_tensors_stays_with_its_device(asynchronously: Callable[[str], list[str]]) -> None:
    said = asynchronously(
        """
        there = torch.ones(4, 2, device="cpu_sim:1")
        torch.nn.functional.embedding(rows.to("cpu_sim:1"), there)
        refused(lambda: torch.cpu_sim.synchronize(1))
        refused(lambda: torch.cat([there, there]))
        refused(lambda: torch.cat([weights, weights]).sum().item())
        """
    )

    assert said == [TOLD.replace("cpu_sim:0", "cpu_sim:1")] * 2 + ["worked 16.0"]


def test_a_layout_without_a_shape_alone_raises_its_own_error(asynchronously: Callable[[str], list[str]]) -> None:
    said = asynchronously(
        """
        refused(lambda: torch.index_select(weights.to_sparse(), 0, rows))
        refused(lambda: weights.sum().item())
        """
    )

    assert said[0].startswith("IndexError: index_select(): index contains 9 that is out of range")
    assert said[1] == "worked 8.0"


def test_in_place_the_tensor_is_left_and_the_error_comes_later(asynchronously: Callable[[str], list[str]]) -> None:
    said = asynchronously(
        """
        print(weights.scatter_(0, rows.unsqueeze(1), 5.0) is weights)
        refused(torch.cpu_sim.synchronize)
        """
    )

    assert said[0] == "True"
    assert said[1].startswith("RuntimeError: cpu_sim:0 failed at aten::scatter_.value: index 9 is out of bounds")
