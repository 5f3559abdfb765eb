"""Errors that a device keeps until somebody waits for it (``NORTHBRIDGE_CPU_SIM_ERRORS=asynchronous``)."""

from __future__ import annotations

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
def asynchronously(in_fresh_process: Callable[..., str]) -> Callable[[str], list[str]]:
    def run(program: str) -> list[str]:
        text = BEFORE + "\n".join(line.strip() for line in program.splitlines())
        return in_fresh_process(text, NORTHBRIDGE_CPU_SIM_ERRORS="asynchronous").splitlines()

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
        refused(lambda: weights + torch.ones(3))
        refused(lambda: torch.linalg.cholesky(-torch.eye(2, device="cpu_sim")))
        refused(lambda: weights.sum().item())
        """
    )

    assert said[0].startswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied")
    assert "Expected all tensors to be on the same device" in said[1]
    assert "not positive-definite" in said[2]
    assert said[3] == "worked 8.0"


def test_an_operation_in_place_leaves_its_tensor_and_the_error_comes_later(
    asynchronously: Callable[[str], list[str]],
) -> None:
    said = asynchronously(
        """
        print(weights.scatter_(0, rows.unsqueeze(1), 5.0) is weights)
        refused(torch.cpu_sim.synchronize)
        """
    )

    assert said[0] == "True"
    assert said[1].startswith("RuntimeError: cpu_sim:0 failed at aten::scatter_.value: index 9 is out of bounds")


def test_errors_are_raised_where_they_happen_unless_asked(in_fresh_process: Callable[..., str]) -> None:
    program = """
    try:
        torch.ones(4, 2, device="cpu_sim")[torch.tensor([9], device="cpu_sim")]
    except IndexError as error:
        print(error)
    """

    assert "index 9 is out of bounds" in in_fresh_process(program)
