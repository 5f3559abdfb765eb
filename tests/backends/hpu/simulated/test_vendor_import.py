"""Effects of the vendor's import on the environment of a process, and on CUDA's names."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from tests.backends.simulation.processes import Run

WRITTEN = ["MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID", "WORLD_SIZE", "RANK", "LOCAL_RANK"]
SHOW = f"import os; print([os.environ.get(name) for name in {WRITTEN}])"


def written(said: str) -> dict[str, str]:
    return {name: value for name, value in zip(WRITTEN, ast.literal_eval(said), strict=True) if value is not None}


def test_a_bare_import_leaves_an_address_and_the_port_12345(run: Run) -> None:
    assert written(run(SHOW)) == {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}


def test_what_the_user_has_set_stays(run: Run) -> None:
    said = run(SHOW, MASTER_ADDR="10.0.0.1", MASTER_PORT="23456")
    assert written(said) == {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"}


def test_a_rank_takes_the_module_of_its_local_rank(run: Run) -> None:
    rank = {"WORLD_SIZE": "16", "RANK": "11", "LOCAL_RANK": "3"}
    assert written(run(SHOW, **rank)) == {**rank, "HLS_MODULE_ID": "3", "ID": "11"}


def test_a_rank_takes_its_place_among_the_visible_modules(run: Run) -> None:
    said = run(SHOW, WORLD_SIZE="4", RANK="1", LOCAL_RANK="1", HABANA_VISIBLE_MODULES="4,5,6,7")
    assert written(said)["HLS_MODULE_ID"] == "5"


def test_too_few_visible_modules_stop_the_import(run: Run) -> None:
    said = run(
        """
        import torch
        try:
            import habana_frameworks.torch
        except AssertionError as error:
            print(error)
        """,
        first="",
        WORLD_SIZE="4",
        RANK="2",
        LOCAL_RANK="2",
        HABANA_VISIBLE_MODULES="0,1",
    )
    assert said.startswith("There is not enough devices available for training.")
    assert "HABANA_VISIBLE_MODULES" in said


def test_an_inherited_module_wins_over_the_local_rank(run: Run) -> None:
    said = run(SHOW, WORLD_SIZE="4", RANK="2", LOCAL_RANK="2", HLS_MODULE_ID="0")
    assert written(said)["HLS_MODULE_ID"] == "0"


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": "1"}, {"WORLD_SIZE": "2", "PT_HPU_EMULATE_DISTRIBUTED": "1"}])
def test_no_module_is_chosen_for_one_rank_or_an_emulated_world(run: Run, environ: dict[str, str]) -> None:
    assert "HLS_MODULE_ID" not in written(run(SHOW, RANK="0", LOCAL_RANK="0", **environ))


def test_what_mpirun_says_becomes_the_rank(run: Run) -> None:
    names = {"SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
    said = run(SHOW, **{f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()})
    assert written(said) == {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "12345",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "LOCAL_RANK": "1",
        "HLS_MODULE_ID": "1",
        "ID": "1",
    }


def test_what_mpirun_says_in_part_counts_for_nothing(run: Run) -> None:
    said = run(SHOW, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_RANK="1")
    assert written(said) == {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}


def test_a_launcher_says_the_rank_itself(run: Run) -> None:
    said = run(
        """
        from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
        print(initialize_distributed_hpu(), initialize_distributed_hpu(world_size=2, rank=1, local_rank=1))
        import os; print(os.environ["HLS_MODULE_ID"], os.environ["ID"], os.environ["WORLD_SIZE"])
        """
    )
    assert said.split("\n")[:2] == ["(1, -1, -1) (2, 1, 1)", "1 1 2"]


def test_profiling_and_compile_threads_are_set(run: Run) -> None:
    show = "import os; print(os.environ['HABANA_PROFILE'], os.environ['TORCHINDUCTOR_COMPILE_THREADS'])"
    assert run(show) == "profile_api_light 1\n"
    assert run(show, HABANA_PROFILE="profile_api") == "profile_api 1\n"


@pytest.mark.parametrize(
    ("environ", "imported"),
    [
        ({}, True),
        ({"PT_HPU_AUTOLOAD": "0"}, False),
        ({"PT_HPU_LAZY_MODE": "1"}, False),
        ({"PT_HPU_LAZY_MODE": "1", "PT_HPU_AUTOLOAD": "1"}, True),
        ({"NORTHBRIDGE_HPU_SIM_RELEASE": "1.19"}, False),
        ({"NORTHBRIDGE_HPU_SIM_RELEASE": "1.19", "PT_HPU_LAZY_MODE": "0"}, True),
    ],
    ids=str,
)
def test_torch_brings_the_package_in_in_eager_mode(run: Run, environ: dict[str, str], imported: bool) -> None:
    said = run("import torch, os; print(hasattr(torch, 'hpu'), os.environ.get('MASTER_PORT'))", **environ, first="#\n")
    assert said == ("True 12345\n" if imported else "False None\n")


def test_loading_after_torch_did_leaves_no_port(run: Run) -> None:
    """The import with torch comes before the bridge, as on a card."""
    said = run(
        """
        import os, sys, torch
        print("habana_frameworks.torch" in sys.modules, os.environ["MASTER_PORT"])
        import northbridge
        northbridge.load("hpu")
        print(os.environ.get("MASTER_PORT"), os.environ.get("MASTER_ADDR"), torch.ones(1, device="hpu").item())
        """,
        first="#\n",
    )
    assert said == "True 12345\nNone None 1.0\n"


def test_an_early_import_that_fails_is_tried_again(run: Run) -> None:
    said = run(
        """
        import os, torch
        import northbridge
        print([each.reason for each in northbridge.record() if each.outcome == "not imported with torch"])
        os.environ["HABANA_VISIBLE_MODULES"] = "0,1,2,3"
        print(northbridge.load("hpu").name, os.environ.get("MASTER_PORT"))
        """,
        first="#\n",
        WORLD_SIZE="4",
        RANK="2",
        LOCAL_RANK="2",
        HABANA_VISIBLE_MODULES="0,1",
    )
    assert said.startswith("['AssertionError: There is not enough devices available for training.")
    assert said.endswith("hpu None\n")


@pytest.mark.shows("autograd serves the card if it came first")
def test_backward_before_the_import_leaves_no_thread(run: Run) -> None:
    said = run(
        """
        import torch
        torch.ones(1, requires_grad=True).sum().backward()
        import habana_frameworks.torch
        try:
            torch.ones(1, device="hpu", requires_grad=True).sum().backward()
        except RuntimeError as error:
            print("refused:", error)
        """,
        first="",
        PT_HPU_AUTOLOAD="0",
    )
    assert said.startswith("refused:")


def test_cuda_looks_available(run: Callable[..., str]) -> None:
    program = "print(torch.cuda.is_available(), torch.cuda.device_count())"
    assert run(program, PT_HPU_GPU_MIGRATION="1") == "True 8\n"
    assert run(program) == "False 0\n"


def test_hccl_says_that_it_is_nccl(on_ranks: Callable[..., list[str]]) -> None:
    assert on_ranks("print(dist.get_backend())", PT_HPU_GPU_MIGRATION="1") == 2 * ["nccl\n"]
