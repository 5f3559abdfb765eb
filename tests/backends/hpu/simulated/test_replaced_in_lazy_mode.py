"""What lazy mode replaces: ``torch.save``, ``torch.load``, and parts of ``torch.nn.Module``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.backends.simulation.processes import Run

Lazily = Callable[[str], str]


@pytest.fixture
def lazily(run: Callable[..., str], tmp_path: Path) -> Lazily:
    """Run a program in lazy mode, which may write to `file`."""
    return lambda program: run(f"file = {str(tmp_path / 'file.pt')!r}\n" + program, PT_HPU_LAZY_MODE="1")


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


def test_dicts_and_tuples_are_written_plain(lazily: Lazily) -> None:
    program = """
import collections, types
linear = torch.nn.Linear(1, 1)
pair = collections.namedtuple('Pair', 'a b')(1, 2)
torch.save([linear.state_dict(), pair, types.SimpleNamespace(a=torch.ones(1))], file)
state, pair, other = torch.serialization.load(file, weights_only=False)
print(type(state).__name__, hasattr(state, '_metadata'), type(pair).__name__, other.a)
"""
    assert lazily(program) == "dict False tuple tensor([1.])\n"


def test_stock_torch_opens_the_file_with_a_warning(lazily: Lazily, tmp_path: Path) -> None:
    lazily("torch.save(torch.ones(1), file)")
    with (
        pytest.warns(UserWarning, match="pickle protocol 4"),
        pytest.raises(Exception, match=r"[Uu]nsupported|Weights"),
    ):
        torch.load(tmp_path / "file.pt", weights_only=True)


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
    program = """
torch.save([torch.ones(1, device='hpu')], file)
print(torch.load(file)[0].device, torch.load(file, map_location='hpu')[0].device)
"""
    assert lazily(program) == "cpu hpu:0\n"


def test_a_function_is_asked_with_tensor_and_device(lazily: Lazily) -> None:
    program = """
torch.save((torch.ones(1),), file)
asked = []
torch.load(file, map_location=lambda *what: asked.append(what))
print(type(asked[0][0]).__name__, asked[0][1])
"""
    assert lazily(program) == "Tensor cpu\n"


def test_of_a_dict_only_the_host_is_looked_at(lazily: Lazily) -> None:
    program = """
torch.save(torch.ones(1, device='hpu'), file)
print(torch.load(file, map_location={'hpu:0': 'hpu'}).device, torch.load(file, map_location={'cpu': 'hpu'}).device)
"""
    assert lazily(program) == "cpu hpu:0\n"


def test_kinds_of_dict_and_tuple_come_back_plain(lazily: Lazily) -> None:
    program = """
import collections
Pair = collections.namedtuple('Pair', 'a b')
torch.save([collections.OrderedDict(a=torch.ones(1)), Pair(torch.ones(1), 2)], file)
print([type(each).__name__ for each in torch.load(file, map_location='cpu')])
"""
    assert lazily(program) == "['dict', 'tuple']\n"


def test_eager_mode_leaves_both_alone(run: Callable[..., str]) -> None:
    program = "print(torch.save.__module__, torch.load.__module__)"
    assert run(program, PT_HPU_LAZY_MODE="0") == "torch.serialization torch.serialization\n"


MODEL = """
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
model.extra = torch.nn.Linear(2, 2)
"""


def test_every_submodule_is_hooked(run: Run) -> None:
    program = MODEL + "print([len(each._forward_pre_hooks) for each in model.modules()]); model(torch.ones(1, 2))"
    assert run(program, PT_HPU_LAZY_MODE="1") == "[0, 1, 1]\n"


def test_a_hooked_module_is_still_one_to_copy_and_pickle(run: Run) -> None:
    program = MODEL + (
        "import copy, pickle\n"
        "again = pickle.loads(pickle.dumps(copy.deepcopy(model)))\n"
        "print([len(each._forward_pre_hooks) for each in again.modules()])"
    )
    assert run(program, PT_HPU_LAZY_MODE="1") == "[0, 1, 1]\n"


@pytest.mark.parametrize(
    ("environ", "shares"),
    [({}, True), ({"PT_HPU_WEIGHT_SHARING": "0"}, False), ({"EXPERIMENTAL_WEIGHT_SHARING": "0"}, False)],
)
def test_attributes_take_another_way_with_weight_sharing(run: Run, environ: dict[str, str], shares: bool) -> None:
    program = MODEL + (
        "Module = torch.nn.Module\n"
        "print(hasattr(Module, 'original__get_attr__'), Module.to.__module__ == 'torch.nn.modules.module')\n"
        "print(model.to('hpu').extra.weight.device, hasattr(model, 'missing'))"
    )
    assert run(program, PT_HPU_LAZY_MODE="1", **environ) == f"{shares} {not shares}\nhpu:0 False\n"


def test_eager_mode_leaves_modules_alone(run: Run) -> None:
    program = MODEL + "print([len(each._forward_pre_hooks) for each in model.modules()])"
    assert run(program, PT_HPU_LAZY_MODE="0") == "[0, 0, 0]\n"
