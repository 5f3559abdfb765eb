"""``torch.nn.Module``, which lazy mode replaces parts of."""

from __future__ import annotations

import pytest
from tests.backends.simulation.processes import Run

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
