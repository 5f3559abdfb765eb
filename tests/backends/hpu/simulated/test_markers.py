"""Lazy and eager mode: their markers, ``hpu_backend``, which eager mode alone has, and graphs, which lazy mode has."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import Run
from torch import nn

import northbridge
from northbridge.lightning.strategies.compilation import reject_compiler
from northbridge_hpu.acceleration import HPUAcceleration


@pytest.mark.parametrize(
    ("release", "variable", "lazy"),
    [
        ("1.19", None, True),
        ("1.22", None, False),
        ("1.19", "0", False),
        ("1.22", "1", True),
        ("1.22", "2", True),
    ],
)
def test_the_variable_or_else_the_release_decides_once(
    run: Run, release: str, variable: str | None, lazy: bool
) -> None:
    """And markers count in lazy mode alone."""
    program = f"""
    import os
    from habana_frameworks.torch.utils.internal import is_lazy
    from northbridge_hpu.simulated import markers
    os.environ["PT_HPU_LAZY_MODE"] = "{int(not lazy)}"
    htcore.mark_step(); htcore.mark_step('hpu', sync=True); torch.hpu.synchronize()
    htcore.step_closure._mark_step_if_lazy()  # by DeepSpeed's Adam
    print(is_lazy(), htcore.is_lazy(), markers.placed)
    """
    said = {} if variable is None else {"PT_HPU_LAZY_MODE": variable}

    assert run(program, NORTHBRIDGE_HPU_SIM_RELEASE=release, **said).endswith(f"{lazy} {lazy} {4 * lazy}\n")


pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of what torch.compile imports

LIST = """
import warnings; warnings.simplefilter('ignore')
from torch._dynamo.backends import registry; print('hpu_backend' in registry._COMPILER_FNS)
"""


@pytest.fixture(autouse=True)
def forgotten(hpu: ModuleType) -> Iterator[None]:
    """Nothing that another test compiled is used."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.shows("torch.compile knows hpu_backend in eager mode alone")
def test_eager_mode_waits_for_torchs_own_import_of_the_compiler(run: Run) -> None:
    program = "import sys, habana_frameworks.torch, torch; print('torch._dynamo' in sys.modules)\n" + LIST

    said = run(program, first="import northbridge; northbridge.load('hpu')\n", afresh=True, PT_HPU_LAZY_MODE="0")

    assert said == "False\nTrue\n"


@pytest.mark.parametrize(
    ("lazy", "release", "wanted"),
    [
        (
            "1",
            "1.22",
            (
                "torch.compile(backend='hpu_backend'): lazy mode makes graphs by itself, and PT_HPU_LAZY_MODE=0 chooses"
                " eager mode. Fix: leave torch.compile out\nno lazy mode makes graphs by itself\nFalse\n"
            ),
        ),
        ("0", "1.19", "compiles torch.Size([1])\nyes \nTrue\n"),
    ],
)
def test_a_script_compiles_before_it_loads_the_chip(run: Run, lazy: str, release: str, wanted: str) -> None:
    program = """
    import torch, northbridge, warnings
    warnings.simplefilter("ignore")
    try:
        torch.compile(torch.nn.Linear(1, 1), backend="hpu_backend")
        northbridge.load("hpu")
        model = torch.nn.Linear(1, 1).to("hpu")
        print("compiles", torch.compile(model, backend="hpu_backend")(torch.ones(1, device="hpu")).shape)
    except northbridge.UnsupportedError as error:
        print(error)
    claim = northbridge.get("hpu").present_capabilities().compile
    print(claim.answer, claim.reason)
    from torch._dynamo.backends import registry; print('hpu_backend' in registry._COMPILER_FNS)
    """

    assert run(program, first="#\n", PT_HPU_LAZY_MODE=lazy, NORTHBRIDGE_HPU_SIM_RELEASE=release) == wanted


@pytest.mark.shows("hpu_backend patches its options for each graph")
def test_options_hold_for_one_graph() -> None:
    options: Any = {"inference": False, "keep_input_mutations": False}
    compiled: Any = torch.compile(nn.Linear(4, 1).to("hpu"), backend="hpu_backend", options=options)
    compiled(torch.ones(1, 4, device="hpu"))

    found = northbridge.get("hpu").acceleration.compile_options()
    assert (found["inference"], found["keep_input_mutations"]) == (True, True)


@pytest.mark.shows("options of hpu_backend", "habana_frameworks.torch.dynamo.compile_backend.config.get_config_copy")
def test_the_options_are_those_of_the_contract(sim: SimChip) -> None:
    said = sim.lines["options of hpu_backend"].meaning
    listed = re.findall(r"(\w+)=(True|False|'\w+')", said)

    found = northbridge.get("hpu").acceleration.compile_options()

    assert {name: repr(value) for name, value in found.items()} == dict(listed)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("inferense", "did you mean 'inference'?"),
        ("zzz", "it has decomposition_mode, discard_frozen_params, "),
    ],
)
def test_an_unknown_option_is_named_before_the_first_step(option: str, said: str) -> None:
    with pytest.raises(northbridge.UnsupportedError) as refused:
        reject_compiler(northbridge.get("hpu"), {"backend": "hpu_backend", "options": {option: True}})

    assert str(refused.value).startswith(f"'hpu_backend' of 'hpu' has no option {option!r}; {said}")
    assert str(refused.value).endswith("Fix: correct options=")
    reject_compiler(northbridge.get("hpu"), {"backend": "hpu_backend"})
    reject_compiler(northbridge.get("hpu"), {"backend": "hpu_backend", "options": {"inference": False}})


def test_a_release_without_a_list_leaves_options_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "habana_frameworks.torch.dynamo.compile_backend.config", None)

    assert northbridge.get("hpu").acceleration.compile_options() == {}
    assert "options of hpu_backend unchecked" in [each.outcome for each in northbridge.record()]


# HPU graphs, which lazy mode alone has, and their wrappers as users' scripts call them

SCRIPT = """
import copy
hpu = habana_frameworks.torch.hpu
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("hpu")
batches = [torch.randn(rows, 4, device="hpu") for rows in (6, 6, 3, 6)]

def train(model, batches):
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        htcore.mark_step()
        losses.append(loss.item())
    return losses

plain, cached, other, graphed = (copy.deepcopy(model) for _ in range(4))
expected = train(plain, batches)
htcore.hpu.ModuleCacher(max_graphs=10)(model=cached, inplace=True)
other = hpu.ModuleCacher()(other, inplace=False, have_grad_accumulation=True, verbose=True)
print(train(cached, batches) == expected, train(other, batches) == expected)
graphed = hpu.make_graphed_callables(graphed, (batches[0],))
print(train(graphed, batches[:2]) == expected[:2])

evaluated = hpu.wrap_in_hpu_graph(model.eval(), disable_tensor_cache=True)
with torch.no_grad():
    print(torch.equal(evaluated(batches[0]), evaluated(batches[0], bypass_hpu_graphs=True)))
evaluated.clear_cache()

graph, given = hpu.HPUGraph(), torch.ones(2, device="hpu")
graph.replay()
with hpu.graph(graph):
    doubled = given * 2
    print(hpu.is_current_stream_capturing())
given.fill_(5.0)
graph.replay()
print(doubled.tolist(), hpu.is_current_stream_capturing())
"""


def test_wrappers_train_as_the_model_does(run: Run) -> None:
    said = run(SCRIPT, PT_HPU_LAZY_MODE="1")
    assert said.splitlines() == ["True True", "True", "True", "True", "[10.0, 10.0] False"]


def test_eager_mode_has_none_and_says_why(run: Run) -> None:
    program = """
    import northbridge
    backend = northbridge.get("hpu")
    print(hasattr(torch.hpu, "HPUGraph"), backend.present_capabilities().graphs.answer)
    try:
        backend.acceleration.graph()
    except northbridge.UnsupportedError as error:
        print(error)
    """
    assert run(program, PT_HPU_LAZY_MODE="0").splitlines() == [
        "False no",
        "the vendor's graphs need lazy mode, and this is eager mode. Fix: set PT_HPU_LAZY_MODE=1",
    ]


def test_several_ranks_need_lazy_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habana_frameworks.torch.utils.internal.is_lazy", lambda: True)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.delenv("PT_HPU_ENABLE_LAZY_COLLECTIVES", raising=False)
    with pytest.raises(northbridge.UnsupportedError, match="Fix: set PT_HPU_ENABLE_LAZY_COLLECTIVES=true"):
        HPUAcceleration().graph()
