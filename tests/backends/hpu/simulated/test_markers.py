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


@pytest.mark.shows(
    "hpu_backend patches its options for each graph",
    "options of hpu_backend",
    "habana_frameworks.torch.dynamo.compile_backend.config.get_config_copy",
)
def test_options_are_the_contracts_and_hold_for_one_graph(sim: SimChip) -> None:
    options: Any = {"inference": False, "keep_input_mutations": False}
    compiled: Any = torch.compile(nn.Linear(4, 1).to("hpu"), backend="hpu_backend", options=options)
    compiled(torch.ones(1, 4, device="hpu"))
    listed = re.findall(r"(\w+)=(True|False|'\w+')", sim.lines["options of hpu_backend"].meaning)

    found = northbridge.get("hpu").acceleration.compile_options()

    assert {name: repr(value) for name, value in found.items()} == dict(listed)


def test_an_unknown_option_is_named_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = northbridge.get("hpu")
    for option, said in {
        "inferense": "did you mean 'inference'?",
        "zzz": "it has decomposition_mode, discard_",
    }.items():
        with pytest.raises(northbridge.UnsupportedError) as refused:
            reject_compiler(backend, {"backend": "hpu_backend", "options": {option: True}})

        assert str(refused.value).startswith(f"'hpu_backend' of 'hpu' has no option {option!r}; {said}")
        assert str(refused.value).endswith("Fix: correct options=")
    reject_compiler(backend, {"backend": "hpu_backend"})
    reject_compiler(backend, {"backend": "hpu_backend", "options": {"inference": False}})

    # A release without a list leaves options unchecked.
    monkeypatch.setitem(sys.modules, "habana_frameworks.torch.dynamo.compile_backend.config", None)
    assert backend.acceleration.compile_options() == {}
    assert "options of hpu_backend unchecked" in [each.outcome for each in northbridge.record()]


# HPU graphs, which lazy mode alone has, and their wrappers as users' scripts call them

SCRIPT = """
import copy
hpu = habana_frameworks.torch.hpu
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("hpu")
batches = [torch.randn(rows, 4, device="hpu") for rows in (6, 6, 3, 6)]

def train(model):
    losses = []
    for batch in batches:
        model.zero_grad()
        losses.append(model(batch).square().mean())
        losses[-1].backward()
        with torch.no_grad():
            [each.sub_(each.grad, alpha=0.1) for each in model.parameters()]
        htcore.mark_step()
    return [each.item() for each in losses]

cached, other, graphed = (copy.deepcopy(model) for _ in range(3))
htcore.hpu.ModuleCacher(max_graphs=10)(model=cached, inplace=True)
other = hpu.ModuleCacher()(other, inplace=False, have_grad_accumulation=True, verbose=True)
evaluated = hpu.wrap_in_hpu_graph(copy.deepcopy(model).eval(), disable_tensor_cache=True)
with torch.no_grad():
    print(torch.equal(evaluated(batches[0]), model(batches[0])), end=" ")
    print(torch.equal(evaluated(batches[0], bypass_hpu_graphs=True), model(batches[0])))
evaluated.clear_cache()
expected = train(model)
print(train(cached) == expected, train(other) == expected)
batches = batches[:2]
print(train(hpu.make_graphed_callables(graphed, (batches[0],))) == expected[:2])

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
    assert said.splitlines() == ["True True", "True True", "True", "True", "[10.0, 10.0] False"]


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
