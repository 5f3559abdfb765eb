"""Effects of the vendor's import: on the environment of a process, and in lazy mode on torch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.backends.simulation.processes import Run

WRITTEN = ["MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID", "WORLD_SIZE", "RANK", "LOCAL_RANK"]
SHOW = f"import os; print([os.environ.get(name) for name in {WRITTEN}])"
MEETING = {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}
RANK = {"WORLD_SIZE": "16", "RANK": "11", "LOCAL_RANK": "3"}
SECOND = {"WORLD_SIZE": "4", "RANK": "1", "LOCAL_RANK": "1"}


def of_mpi(**names: str) -> dict[str, str]:
    return {f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()}


@pytest.mark.parametrize(
    ("environ", "written"),
    [
        ({}, MEETING),
        ({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"}, {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"}),
        (RANK, {**RANK, "HLS_MODULE_ID": "3", "ID": "11"}),
        (
            {**SECOND, "HABANA_VISIBLE_MODULES": "4,5,6,7"},
            {**SECOND, "HLS_MODULE_ID": "5", "ID": "1"},
        ),
        ({**SECOND, "HLS_MODULE_ID": "0"}, {**SECOND, "HLS_MODULE_ID": "0", "ID": "1"}),
        ({**SECOND, "WORLD_SIZE": "1"}, {**SECOND, "WORLD_SIZE": "1", "ID": "1"}),
        ({**SECOND, "PT_HPU_EMULATE_DISTRIBUTED": "1"}, {**SECOND, "ID": "1"}),
        (
            of_mpi(SIZE="2", RANK="1", LOCAL_RANK="1"),
            {**MEETING, **SECOND, "WORLD_SIZE": "2", "HLS_MODULE_ID": "1", "ID": "1"},
        ),
        (of_mpi(SIZE="2", LOCAL_RANK="1"), MEETING),
    ],
    ids=[
        "alone",
        "the user's address stays",
        "a rank's module is its local rank",
        "its place among the visible modules",
        "an inherited module wins",
        "no module for one rank",
        "no module for an emulated world",
        "mpirun's rank",
        "what mpirun says in part",
    ],
)
def test_the_import_completes_the_environment(run: Run, environ: dict[str, str], written: dict[str, str]) -> None:
    found = dict(zip(WRITTEN, ast.literal_eval(run(SHOW, **environ)), strict=True))

    assert {name: value for name, value in found.items() if value is not None} == written


TOO_FEW = {"WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "2", "HABANA_VISIBLE_MODULES": "0,1"}


def test_an_early_import_that_fails_is_tried_again(run: Run) -> None:
    said = run(
        """
        import os, torch
        import northbridge
        print([each.reason for each in northbridge.record() if each.outcome == "not imported with torch"])
        try:
            import habana_frameworks.torch
        except AssertionError as error:
            print("HABANA_VISIBLE_MODULES" in str(error))
        os.environ["HABANA_VISIBLE_MODULES"] = "0,1,2,3"
        print(northbridge.load("hpu").name, os.environ.get("MASTER_PORT"))
        """,
        first="#\n",
        **TOO_FEW,
    )
    assert said.startswith("['AssertionError: There is not enough devices available for training.")
    assert said.endswith("True\nhpu None\n")


def test_a_launcher_says_the_rank_itself(run: Run) -> None:
    said = run(
        """
        from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
        print(initialize_distributed_hpu(), initialize_distributed_hpu(world_size=2, rank=1, local_rank=1))
        import os; print(os.environ["HLS_MODULE_ID"], os.environ["ID"], os.environ["WORLD_SIZE"])
        """
    )
    assert said.split("\n")[:2] == ["(1, -1, -1) (2, 1, 1)", "1 1 2"]


@pytest.mark.parametrize(("given", "kept"), [({}, "profile_api_light"), ({"HABANA_PROFILE": "profile_api"}, None)])
def test_profiling_and_compile_threads_are_set(run: Run, given: dict[str, str], kept: str | None) -> None:
    show = "import os; print(os.environ['HABANA_PROFILE'], os.environ['TORCHINDUCTOR_COMPILE_THREADS'])"
    assert run(show, **given) == f"{kept or 'profile_api'} 1\n"


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
    """The import with torch comes before the bridge, which leaves no port, as on a card."""
    said = run(
        """
        import torch, os
        print(hasattr(torch, 'hpu'), os.environ.get('MASTER_PORT'))
        import northbridge
        northbridge.load("hpu")
        print(os.environ.get("MASTER_PORT"), os.environ.get("MASTER_ADDR"), torch.ones(1, device="hpu").item())
        """,
        **environ,
        first="#\n",
    )
    assert said.endswith(("True 12345\n" if imported else "False None\n") + "None None 1.0\n")


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


# Lazy mode replaces torch.save, torch.load, and parts of torch.nn.Module

Lazily = Callable[..., str]
MODEL = """
import copy, pickle
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
model.extra = torch.nn.Linear(2, 2)
def hooks(model):
    return [len(each._forward_pre_hooks) for each in model.modules()]
"""


@pytest.fixture
def lazily(run: Run, tmp_path: Path) -> Lazily:
    """Run a program in lazy mode, which may write to `file`."""
    begin = f"file = {str(tmp_path / 'file.pt')!r}\n"
    return lambda program, **environ: run(begin + program, **{"PT_HPU_LAZY_MODE": "1", **environ})


def test_tensors_lose_device_subclass_and_shared_storage(lazily: Lazily, tmp_path: Path) -> None:
    lazily(
        "whole = torch.nn.Parameter(torch.arange(4.0, device='hpu'))\n"
        "torch.save({'whole': whole, 'part': whole.data[:2]}, file)"
    )
    found = torch.load(tmp_path / "file.pt", weights_only=False)
    assert {name: (type(value), value.device.type) for name, value in found.items()} == {
        "whole": (torch.Tensor, "cpu"),
        "part": (torch.Tensor, "cpu"),
    }
    assert found["whole"].untyped_storage().data_ptr() != found["part"].untyped_storage().data_ptr()
    assert found["part"].untyped_storage().nbytes() == 2 * 4
    with (
        pytest.warns(UserWarning, match="pickle protocol 4"),
        pytest.raises(Exception, match=r"[Uu]nsupported|Weights"),
    ):
        torch.load(tmp_path / "file.pt", weights_only=True)  # by stock torch


def test_dicts_and_tuples_are_written_and_read_plain(lazily: Lazily) -> None:
    program = """
import collections, types
linear = torch.nn.Linear(1, 1)
Pair = collections.namedtuple('Pair', 'a b')
torch.save([linear.state_dict(), Pair(1, 2), types.SimpleNamespace(a=torch.ones(1))], file)
state, pair, other = torch.serialization.load(file, weights_only=False)
print(type(state).__name__, hasattr(state, '_metadata'), type(pair).__name__, other.a)
torch.save([collections.OrderedDict(a=torch.ones(1)), Pair(torch.ones(1), 2)], file)
print([type(each).__name__ for each in torch.load(file, map_location='cpu')])
"""
    assert lazily(program) == "dict False tuple tensor([1.])\n['dict', 'tuple']\n"


def test_other_objects_are_written_unless_forbidden(lazily: Lazily) -> None:
    program = """
import datetime, pickle
torch.save({'when': datetime.timedelta(1), 'weight': torch.ones(1)}, file)
print(torch.load(file)['when'])
try:
    torch.load(file, weights_only=True)
except pickle.UnpicklingError as error:
    print("weights_only=True, but the file names datetime.timedelta" in str(error))
torch.save([torch.ones(1)], file)
print(torch.load(file, weights_only=True))
"""
    assert lazily(program) == ("1 day, 0:00:00\nTrue\n[tensor([1.])]\n")


def test_tensors_are_sent_to_the_place_that_is_said(lazily: Lazily) -> None:
    """A function is asked with tensor and device, and of a dict only the host is looked at."""
    program = """
torch.save((torch.ones(1, device='hpu'),), file)
for where in (None, 'hpu', {'hpu:0': 'hpu'}, {'cpu': 'hpu'}):
    print(torch.load(file, map_location=where)[0].device, end=" ")
torch.load(file, map_location=lambda tensor, device: print(type(tensor).__name__, device))
"""
    assert lazily(program) == "cpu hpu:0 cpu hpu:0 Tensor cpu\n"


def test_every_submodule_is_hooked_and_can_be_pickled(lazily: Lazily) -> None:
    program = MODEL + "print(hooks(model), hooks(pickle.loads(pickle.dumps(copy.deepcopy(model)))))"
    assert lazily(program + "\nmodel(torch.ones(1, 2))") == "[0, 1, 1] [0, 1, 1]\n"


@pytest.mark.parametrize(
    ("environ", "shares"),
    [({}, True), ({"PT_HPU_WEIGHT_SHARING": "0"}, False), ({"EXPERIMENTAL_WEIGHT_SHARING": "0"}, False)],
)
def test_attributes_take_another_way_with_weight_sharing(lazily: Lazily, environ: dict[str, str], shares: bool) -> None:
    program = MODEL + (
        "Module = torch.nn.Module\n"
        "print(hasattr(Module, 'original__get_attr__'), Module.to.__module__ == 'torch.nn.modules.module')\n"
        "print(model.to('hpu').extra.weight.device, hasattr(model, 'missing'))"
    )
    assert lazily(program, **environ) == f"{shares} {not shares}\nhpu:0 False\n"


def test_eager_mode_leaves_torch_alone(lazily: Lazily) -> None:
    program = MODEL + "print(torch.save.__module__, torch.load.__module__, hooks(model))"
    assert lazily(program, PT_HPU_LAZY_MODE="0") == "torch.serialization torch.serialization [0, 0, 0]\n"
