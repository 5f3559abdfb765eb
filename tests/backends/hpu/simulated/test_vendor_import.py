"""Effects of the vendor's import: on the environment of a process, and in lazy mode on torch; and absent names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run

import northbridge

WRITTEN = ["MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID", "WORLD_SIZE", "RANK", "LOCAL_RANK"]
WRITTEN += ["HABANA_PROFILE", "TORCHINDUCTOR_COMPILE_THREADS"]
SHOW = f"import os; print([os.environ.get(name) for name in {WRITTEN}])"
MEETING = {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}
ADDRESS = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"}
RANK = {"WORLD_SIZE": "16", "RANK": "11", "LOCAL_RANK": "3"}
SECOND = {"WORLD_SIZE": "4", "RANK": "1", "LOCAL_RANK": "1"}


def of_mpi(**names: str) -> dict[str, str]:
    return {f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()}


@pytest.mark.parametrize(
    ("environ", "written"),
    [
        ({}, MEETING),
        ({**ADDRESS, "HABANA_PROFILE": "profile_api"}, {**ADDRESS, "HABANA_PROFILE": "profile_api"}),
        (RANK, {**RANK, "HLS_MODULE_ID": "3", "ID": "11"}),
        ({**SECOND, "HABANA_VISIBLE_MODULES": "4,5,6,7"}, {**SECOND, "HLS_MODULE_ID": "5", "ID": "1"}),
        ({**SECOND, "HLS_MODULE_ID": "0"}, {**SECOND, "HLS_MODULE_ID": "0", "ID": "1"}),
        ({**SECOND, "WORLD_SIZE": "1"}, {**SECOND, "WORLD_SIZE": "1", "ID": "1"}),
        ({**SECOND, "PT_HPU_EMULATE_DISTRIBUTED": "1"}, {**SECOND, "ID": "1"}),
        (of_mpi(SIZE="4", RANK="1", LOCAL_RANK="1"), {**MEETING, **SECOND, "HLS_MODULE_ID": "1", "ID": "1"}),
        (of_mpi(SIZE="2", LOCAL_RANK="1"), MEETING),
    ],
    ids=[
        "alone",
        "what the user set stays",
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

    everywhere = {"HABANA_PROFILE": "profile_api_light", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    assert {name: value for name, value in found.items() if value is not None} == {**everywhere, **written}


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


@pytest.mark.parametrize(
    ("environ", "imported"),
    [
        ({}, True),
        ({"PT_HPU_AUTOLOAD": "0"}, False),
        ({"PT_HPU_LAZY_MODE": "1"}, False),
        ({"PT_HPU_LAZY_MODE": "1", "PT_HPU_AUTOLOAD": "1"}, True),
        ({"NORTHBRIDGE_HPU_SIM_RELEASE": "1.19"}, False),
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


# Names that scripts use, and those that are not there


def test_calls_of_the_vendors_examples_change_nothing(hpu: ModuleType) -> None:
    """Older scripts load the bridge by name, and each run says whether shapes are dynamic."""
    import habana_frameworks.torch.utils.experimental as htexp
    from habana_frameworks.torch.utils import library_loader

    for call in (library_loader.load_habana_module, hpu.enable_dynamic_shape, hpu.disable_dynamic_shape):
        call()
        assert torch.ones(2, device="hpu").sum().item() == 2
    assert library_loader.is_habana_available()
    assert htexp._is_fp16_supported() is True  # from the second generation on, as DeepSpeed asks


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("import habana_frameworks.torch.gpu_migration", "torch.gpu_migration"),
        ("from habana_frameworks.torch.hpex.absent.deep import name", "torch.hpex.absent"),
        ("from habana_frameworks.torch.core import name", "torch.core.name"),
        ("from habana_frameworks.mediapipe import fn", "mediapipe"),
        ("import torch.hpu.name", "torch.hpu.name"),
        ("__import__('importlib').import_module('.name', 'habana_frameworks.torch')", "torch.name"),
    ],
)
def test_an_absent_name_is_not_simulated(hpu: ModuleType, line: str, absent: str) -> None:
    with pytest.raises(northbridge.NotSimulatedError) as caught:
        exec(line, {})

    fix = '. Fix: without gpu_migration, write torch.hpu and device "hpu"' if "gpu_migration" in line else ""
    said = f"the simulated Gaudi has no habana_frameworks.{absent}; a real one may have it{fix}"
    assert str(caught.value) == said
    with pytest.raises(AttributeError, match=r"^the simulated Gaudi has no habana_\S+.hpu.empty_cache; a real"):
        _ = hpu.empty_cache


def test_an_absent_operator_is_not_simulated(hpu: ModuleType) -> None:
    with pytest.raises(AttributeError) as caught:
        _ = torch.ops.hpu.mixture_of_experts

    assert str(caught.value) == "the simulated Gaudi has no torch.ops.hpu.mixture_of_experts; a real one may have it"
    assert not hasattr(torch.ops.hpu, "__wrapped__")


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


def test_files_are_written_and_read_in_the_vendors_way(lazily: Lazily) -> None:
    """A function is asked with tensor and device, and of a dict only the host is looked at."""
    program = """
import collections, datetime, pickle, types
Pair = collections.namedtuple('Pair', 'a b')
torch.save([torch.nn.Linear(1, 1).state_dict(), Pair(1, 2), types.SimpleNamespace(a=torch.ones(1))], file)
state, pair, other = torch.serialization.load(file, weights_only=False)
print(type(state).__name__, hasattr(state, '_metadata'), type(pair).__name__, other.a)
torch.save([collections.OrderedDict(a=torch.ones(1)), Pair(torch.ones(1), 2)], file)
print([type(each).__name__ for each in torch.load(file, map_location='cpu')])
torch.save({'when': datetime.timedelta(1), 'weight': torch.ones(1)}, file)
print(torch.load(file)['when'])
try:
    torch.load(file, weights_only=True)
except pickle.UnpicklingError as error:
    print("weights_only=True, but the file names datetime.timedelta" in str(error))
torch.save((torch.ones(1, device='hpu'),), file)
print(torch.load(file, weights_only=True))
for where in (None, 'hpu', {'hpu:0': 'hpu'}, {'cpu': 'hpu'}):
    print(torch.load(file, map_location=where)[0].device, end=" ")
torch.load(file, map_location=lambda tensor, device: print(type(tensor).__name__, device))
"""
    assert lazily(program).splitlines() == [
        "dict False tuple tensor([1.])",
        "['dict', 'tuple']",
        "1 day, 0:00:00",
        "True",
        "(tensor([1.]),)",
        "cpu hpu:0 cpu hpu:0 Tensor cpu",
    ]


@pytest.mark.parametrize(
    ("environ", "shares"),
    [({}, True), ({"PT_HPU_WEIGHT_SHARING": "0"}, False), ({"EXPERIMENTAL_WEIGHT_SHARING": "0"}, False)],
)
def test_modules_are_hooked_and_attributes_take_another_way(
    lazily: Lazily, environ: dict[str, str], shares: bool
) -> None:
    """The second with weight sharing alone; every submodule is hooked, and can be pickled."""
    program = MODEL + (
        "print(hooks(model), hooks(pickle.loads(pickle.dumps(copy.deepcopy(model)))))\n"
        "model(torch.ones(1, 2))\n"
        "Module = torch.nn.Module\n"
        "print(hasattr(Module, 'original__get_attr__'), Module.to.__module__ == 'torch.nn.modules.module')\n"
        "print(model.to('hpu').extra.weight.device, hasattr(model, 'missing'))"
    )
    assert lazily(program, **environ) == f"[0, 1, 1] [0, 1, 1]\n{shares} {not shares}\nhpu:0 False\n"


def test_eager_mode_leaves_torch_alone(lazily: Lazily) -> None:
    program = MODEL + "print(torch.save.__module__, torch.load.__module__, hooks(model))"
    assert lazily(program, PT_HPU_LAZY_MODE="0") == "torch.serialization torch.serialization [0, 0, 0]\n"
